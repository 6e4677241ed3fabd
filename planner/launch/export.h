// From a plan to the launch configuration that starts it: what a writer takes, what it gives back,
// and the doors to all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/launch/launch_layout.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Whether the file measures (mock data, 50 steps) or trains: data, tokenizer, checkpoints and
// number of steps then come from the environment (DATA_PATH, …), and the run stops where one is
// missing.
enum class LaunchForm : std::uint8_t { kBenchmark, kTraining };
// Who starts the processes of several hosts: a person on each, or Slurm.
enum class Launcher : std::uint8_t { kTorchrun, kSlurm };

// What is started: a plan that breaks no rule, on hosts that each start the same number of
// processes, one a GPU.
struct LaunchPlan {
  Job job;
  Plan plan;
  std::int64_t hosts = 1;
  std::int64_t processes_per_host = 1;
  double step_seconds = 0;        // predicted
  double peak_allocated_gib = 0;  // predicted, of the fullest GPU
  double peak_reserved_gib = 0;
  double tokens_per_second_per_gpu = 0;
  double model_tflops_per_gpu = 0;
  LaunchForm form = LaunchForm::kBenchmark;
  std::int64_t steps = 50;
  Launcher launcher = Launcher::kTorchrun;
  std::string flavor;         // torchtitan's name of the model's size; empty: found by the name
  std::string file = "FILE";  // what the configuration will be called
  std::vector<std::string> notes;  // more lines of its heading
};

struct LaunchFile {
  std::string text;
  std::string command;               // what starts it on each host
  std::vector<std::string> remarks;  // what the format cannot hold and the reader must know
};

// The hosts of the job's cluster: a rack of 72 GPUs is 18 hosts of 4. Throws Error when the GPUs
// are not whole hosts.
void set_hosts(LaunchPlan& launch);

// Throws the Error that every writer says no with: the axis, and what would be right.
[[noreturn]] void refuse(std::string_view axis, const std::string& what);

// The lines that a file begins with: how to start it, for which version, of what, what is
// predicted, and what the program's own log will then say (`expected`).
std::vector<std::string> heading(const LaunchPlan& launch, std::string_view command,
                                 std::string_view version, const std::string& expected);
// Each line after "# ", as printable text.
std::string commented(const std::vector<std::string>& lines);

// torchrun with the hosts' arguments, without what it runs; several hosts take MASTER_ADDR and
// NODE_RANK from the environment, or meet at MASTER_ADDR where Slurm starts them.
std::string torchrun(const LaunchPlan& launch);
// The #SBATCH lines of a job script and its MASTER_ADDR.
std::string slurm_header(const LaunchPlan& launch);
// Steps of rising learning rate: the first tenth, 2000 at most.
std::int64_t warmup_steps(const LaunchPlan& launch);
// Variables that the plan's allocator and launch choices need, each "NAME=VALUE".
std::vector<std::string> environment(const LaunchPlan& launch);
// The same before a command: "NAME=VALUE NAME=VALUE ", or nothing.
std::string environment_prefix(const LaunchPlan& launch);

// What the prediction has and the person's own program decides, where a configuration holds neither
// model nor optimizer: "fused cross entropy, dropout 0.1"; empty: nothing beside the defaults.
std::string choices_of_the_program(const Job& job);

// "on this host" or "on each of 8 hosts, with MASTER_ADDR and NODE_RANK set".
std::string where_to_start(const LaunchPlan& launch);

// The format of the users of a framework's entry, by its name or by that of its base. Throws Error
// for trireme, which has several.
LaunchFormat default_launch_format(std::string_view entry, std::string_view base);

// Whose behaviour the started job has, as NAME[@VERSION]: `framework` where the format starts it,
// or the format's own program where it names but how that shards (fsdp2) or another's program; for
// trireme, whose plans are anybody's, the format's own. Throws Error when the format starts
// another.
std::string launched_framework(LaunchFormat format, const Framework& framework, Sharding sharding);

// Makes the job what the format's framework will do of it, where it gives no choice, and notes what
// that changed. Before the prediction.
void settle_launched_job(LaunchFormat format, LaunchPlan& launch);

// Of `--set`'s keys, those that describe a framework rather than choose something of it: they are
// in the prediction, and no launch file has a field for them.
bool is_in_launch_files(std::string_view setting);

// Throws Error naming the axis that the format cannot say, and what would be right.
LaunchFile write_launch(LaunchFormat format, const LaunchPlan& launch);
// One writer each, of what no row refuses (refusals.h). Throws Error naming the field of the model
// that the format cannot say.
LaunchFile write_megatron(const LaunchPlan& launch);
LaunchFile write_megatron_bridge(const LaunchPlan& launch);
LaunchFile write_torchtitan(const LaunchPlan& launch);
LaunchFile write_deepspeed(const LaunchPlan& launch);
LaunchFile write_accelerate(const LaunchPlan& launch);

}  // namespace trireme::planner
