"""b2luigi's htcondor batch system: six tasks that write a file each, and one that fails."""

import sys

import b2luigi


class Write(b2luigi.Task):
    number = b2luigi.IntParameter()
    fails = b2luigi.BoolParameter(default=False)
    htcondor_settings = {"request_cpus": 1, "request_memory": "100 MB", "+JobFlavour": '"short"'}

    def output(self):
        yield self.add_to_output("number.txt")

    def run(self):
        if self.fails:
            raise SystemExit(3)
        with open(self.get_output_file_name("number.txt"), "w") as file:
            file.write(str(self.number))


class All(b2luigi.WrapperTask):
    def requires(self):
        yield from (Write(number=number) for number in range(6))
        yield Write(number=99, fails=True)


if __name__ == "__main__":
    b2luigi.set_setting("result_dir", "results")
    b2luigi.set_setting("batch_system", "htcondor")
    b2luigi.set_setting("executable", [sys.executable])
    b2luigi.set_setting("batch_status_cache_ttl", 2)  # seconds; without it a state is asked for every two minutes
    b2luigi.process(All(), batch=True, workers=10, ignore_additional_command_line_args=True)
