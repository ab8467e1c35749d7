"""One job, from submit to history: states, policy, the durable queue, its executions and what its log says."""
