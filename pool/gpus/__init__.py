"""What GPUs a machine has, as condor_gpu_discovery reports them."""
