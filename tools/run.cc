// `trireme run`: executes a plan with real numbers.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "core/verify.h"
#include "planner/lower/arithmetic.h"
#include "planner/lower/lower.h"
#include "planner/plan/narrow.h"
#include "planner/walk/step_times.h"
#include "runtime/cpu/processes.h"
#include "runtime/cpu/threads.h"
#include "tools/commands.h"
#include "tools/plan_file.h"
#include "tools/report.h"
#include "tools/request.h"
#include "tools/run_alike.h"
#include "tools/run_cuda.h"
#include "tools/run_ranks.h"
#include "tools/run_report.h"
#include "tools/sample_options.h"

namespace trireme::tools {
namespace {

constexpr std::int64_t kCpuRanksMax = 256;

struct RunArguments {
  std::string plan_file;
  JobOptions job;
  LayoutOptions layout;
  std::string backend = "cuda", precision, data, token_type, trace, result, save, resume;
  std::string betas = "0.9,0.95", rate = "3e-4", clip = "1.0", weight_decay = "0.1",
              timeout = "120";
  std::optional<std::int64_t> steps, seed, warmup, save_every;
  bool deterministic = false, json = false;
};

void add_training_options(Command& command, RunArguments& options) {
  add_choice_option(command, "--backend", options.backend, "where ranks run (default cuda)",
                    {"cuda", "cpu"});
  command.remove_option("--precision");
  add_choice_option(command, "--precision", options.precision,
                    "bf16 (default on cuda), fp8 (products of dense layers, the rest bf16), fp32 "
                    "(default on cpu), fp64 (cpu); bf16 on the cpu rounds every result",
                    {"bf16", "fp8", "fp32", "fp64"});
  add_count_option(command, "--steps", options.steps, "training steps (default 10)");
  add_count_option(command, "--seed", options.seed, "of weights and synthetic tokens (default 1)",
                   0, std::numeric_limits<std::int64_t>::max());
  command
      .add_option("--data", options.data,
                  "a file of tokens back to back (default: synthetic tokens)")
      ->type_name("FILE");
  add_choice_option(command, "--token-type", options.token_type,
                    "of --data (default uint32 for names in .u32 or .bin32, else uint16)",
                    {"uint16", "uint32"});
  command.add_option("--lr", options.rate, "learning rate (default 3e-4)")->type_name("RATE");
  add_count_option(command, "--warmup", options.warmup, "steps until the full rate (default 0)", 0);
  command.add_option("--clip", options.clip, "largest gradient norm, 0 for none (default 1)")
      ->type_name("NORM");
  command.add_option("--betas", options.betas, "AdamW's (default 0.9,0.95)")->type_name("B1,B2");
  command.add_option("--weight-decay", options.weight_decay, "AdamW's (default 0.1)")
      ->type_name("DECAY");
  command.add_option("--save", options.save, "folder for checkpoints; the last step saves")
      ->type_name("DIR");
  add_count_option(command, "--save-every", options.save_every, "also save every N steps");
  command.add_option("--resume", options.resume, "goes on from a checkpoint of any layout")
      ->type_name("DIR");
  command.add_flag("--deterministic", options.deterministic,
                   "the same bits in every run and after --resume on the same GPUs; attention's "
                   "backward is slower (the cpu backend always is)");
  command
      .add_option("--timeout", options.timeout,
                  "seconds without progress that end the run (default 120)")
      ->type_name("SECONDS");
  command
      .add_option("--trace", options.trace,
                  "measures ops in every second step, which it makes slower; a Perfetto trace")
      ->type_name("FILE");
  command.add_option("-o,--output", options.result, "the result as JSON")->type_name("FILE");
  command.add_flag("--json", options.json, "the result on stdout");
}

runtime::TrainSettings settings_of(const RunArguments& options) {
  runtime::TrainSettings settings;
  settings.steps = options.steps.value_or(10);
  settings.seed = static_cast<std::uint64_t>(options.seed.value_or(1));
  settings.learning_rate = parse_number(options.rate, "--lr", 0, 1e6);
  settings.warmup = options.warmup.value_or(0);
  settings.max_norm = parse_number(options.clip, "--clip", 0, 1e30);
  settings.weight_decay = parse_number(options.weight_decay, "--weight-decay", 0, 1e6);
  const auto comma = options.betas.find(',');
  if (comma == std::string::npos) {
    throw Error("--betas",
                fmt::format("'{}' is not two numbers with a comma, as 0.9,0.95", options.betas));
  }
  settings.beta1 = parse_number(options.betas.substr(0, comma), "--betas", 0, 0.999999999);
  settings.beta2 = parse_number(options.betas.substr(comma + 1), "--betas", 0, 0.999999999);
  settings.save_folder = options.save;
  settings.save_every = options.save_every.value_or(0);
  settings.resume_folder = options.resume;
  settings.timed = !options.trace.empty();
  settings.timeout = Seconds(parse_number(options.timeout, "--timeout", 0.001, 1e6));
  return settings;
}

std::string cpu_name() {
  constexpr const char* kPlace = "/proc/cpuinfo";
  const std::string text = std::filesystem::exists(kPlace) ? read_file(kPlace, "CPUs") : "";
  const auto row = text.find("model name");
  const auto colon = text.find(": ", row);
  return colon == std::string::npos ? "CPU"
                                    : text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

runtime::cpu::Arithmetic arithmetic_of(const std::string& precision) {
  const bool rounded = precision == "bf16" || precision == "fp8";
  return precision == "fp64" ? runtime::cpu::Arithmetic::kFp64
         : rounded           ? runtime::cpu::Arithmetic::kBf16
                             : runtime::cpu::Arithmetic::kFp32;
}

// All ranks that run here share this machine's memory; running out of it would end other people's
// work.
void check_memory(const StepProgram& program, std::uint32_t first, std::uint32_t count) {
  Bytes needed;
  for (std::uint32_t rank = first; rank < first + count; ++rank) {
    const Liveness live = liveness(program, program.roles[index_of(role_of(program, Rank(rank)))]);
    needed += live.peak + live.host;
  }
  const Bytes there(static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                    ::sysconf(_SC_PAGE_SIZE));
  if (needed > there) {
    throw Error("--backend",
                fmt::format("cpu: the ranks need {:.1f} GiB together, this machine has {:.1f}",
                            to_gib(needed), to_gib(there)),
                ErrorKind::kMissingMachine);
  }
}

// The plan for as many ranks as there are; when a launcher said how many, an error says so too.
void settle_plan(const RunArguments& options,
                 const std::optional<runtime::RankEnvironment>& environment,
                 std::optional<std::int64_t> ranks, const planner::Plan& base,
                 RunDescription& run) {
  try {
    run.plan = make_plan(options.layout, ranks, base);
    run.job.cluster.gpus = run.plan.gpus();
    complete(run.job, run.plan);
  } catch (const Error& error) {
    if (!environment.has_value()) {
      throw;
    }
    throw Error("WORLD_SIZE",
                fmt::format("{} started {} ranks, and for so many: {}", environment->launcher,
                            environment->ranks, error.what()),
                error.kind());
  }
}

// The job, the plan and the program. Files that could not be written at the end are refused here.
RunDescription describe(const RunArguments& options,
                        const std::optional<runtime::RankEnvironment>& environment) {
  RunDescription run;
  const bool cpu = options.backend == "cpu";
  run.backend = options.backend;
  JobOptions job = options.job;
  planner::Plan base;
  std::optional<std::int64_t> ranks = job.gpus;
  if (!options.plan_file.empty()) {
    PlanFile file = read_plan_file(options.plan_file);
    job = merged(std::move(file.options), job);
    base = std::move(file.plan);
    ranks = ranks.has_value() ? ranks : std::optional(base.gpus());
  }
  if (environment.has_value()) {
    ranks = environment->ranks;
  }
  run.precision = !options.precision.empty() ? options.precision
                  : job.precision == "fp8"   ? "fp8"
                  : cpu                      ? "fp32"
                                             : "bf16";
  job.gpus.reset();  // ranks, here: the cluster is narrowed to the plan below
  job.precision = run.precision == "fp64" ? "fp32" : run.precision;
  run.options = job;
  run.job = job.cluster.empty() ? make_job_without_cluster(job) : make_job(job);
  settle_plan(options, environment, ranks, base, run);
  const ElementWidths widths =
      cpu ? runtime::cpu::widths_of(arithmetic_of(run.precision)) : ElementWidths{};
  run.program = planner::lower(run.job, run.plan, {.widths = widths, .executable = true});
  if (const std::vector<std::string> problems = verify(run.program); !problems.empty()) {
    throw Error(run.program.name, "the step program is wrong: " + problems.front());
  }
  if (!job.cluster.empty()) {
    run.predicted = planner::time_ops(run.job, run.program);
  }
  if (run.job.optimizer != planner::Optimizer::kAdam) {
    throw Error("--optimizer",
                "run trains with AdamW; adam8bit and sgd can be planned, not executed");
  }
  if (cpu && run.program.ranks > kCpuRanksMax) {
    throw Error(
        "layout",
        fmt::format("{} ranks are too many for threads of one process; the cpu backend takes {}",
                    run.program.ranks, kCpuRanksMax));
  }
  run.seed = static_cast<std::uint64_t>(options.seed.value_or(1));
  run.result_file = options.result;
  run.trace_file = options.trace;
  run.deterministic = options.deterministic;
  run.json = options.json;
  for (const std::string& file : {options.result, options.trace}) {
    const auto folder = std::filesystem::path(file).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder)) {
      throw Error(file, fmt::format("cannot be written: there is no folder {}", folder.string()));
    }
  }
  std::error_code error;
  if (!options.save.empty() && !std::filesystem::create_directories(options.save, error) && error) {
    throw Error("--save",
                fmt::format("cannot create the folder {}: {}", options.save, error.message()));
  }
  return run;
}

// One rank a process, of which this is one.
int run_on_cpu_processes(const RankRun& ranks, const runtime::RankEnvironment& environment,
                         const runtime::cpu::CpuOptions& options, Console& console) {
  std::unique_ptr<runtime::cpu::Processes> processes;  // outlives the backend
  return run_on_processes(
      ranks, environment,
      [&](const runtime::RankEnvironment& own, runtime::Coordinator& coordinator,
          runtime::OpBoard& /*board*/) {
        processes = std::make_unique<runtime::cpu::Processes>(coordinator, own.master,
                                                              ranks.settings.timeout);
        return runtime::cpu::make_cpu_backend(*ranks.program, own.rank, processes->exchange(),
                                              options);
      },
      console.err);
}

// What a rank runs, of its own arguments and files.
struct Prepared {
  RunDescription description;
  runtime::TrainSettings settings;
  std::unique_ptr<runtime::TokenSource> tokens;
  std::vector<runtime::Told> told;  // under a launcher
};

Prepared prepare(const RunArguments& options,
                 const std::optional<runtime::RankEnvironment>& environment) {
  const bool cpu = options.backend == "cpu";
  if (!cpu) {
    require_cuda();
    if (options.precision == "fp32" || options.precision == "fp64") {
      throw Error("--precision",
                  "the cuda backend computes in bf16 or fp8 with fp32 masters; fp32 and fp64 are "
                  "the cpu's");
    }
  }
  Prepared run{.description = describe(options, environment),
               .settings = settings_of(options),
               .tokens = nullptr,
               .told = {}};
  const planner::Job& job = run.description.job;
  const bool delayed =
      planner::multiplies_narrow(job) && job.framework.fp8_recipe == planner::Fp8Recipe::kDelayed;
  if (delayed && !(options.save.empty() && options.resume.empty())) {
    throw Error(options.resume.empty() ? "--save" : "--resume",
                "checkpoints do not hold the largest values that fp8_recipe=delayed looks back at; "
                "tensorwise and blockwise look at none");
  }
  const int token_bytes = options.token_type.empty() ? 0 : (options.token_type == "uint16" ? 2 : 4);
  run.tokens = options.data.empty()
                   ? runtime::synthetic_tokens(run.settings.seed, job.model.vocab)
                   : runtime::file_tokens(options.data, token_bytes, job.sequence, job.model.vocab);
  run.description.device = cpu ? cpu_name() : std::string();
  const StepProgram& program = run.description.program;
  if (cpu && environment.has_value()) {
    check_memory(program, static_cast<std::uint32_t>(environment->rank), 1);
  } else if (cpu) {
    check_memory(program, 0, static_cast<std::uint32_t>(program.ranks));
  }
  if (environment.has_value()) {
    run.told = told_of(run.description, run.settings,
                       data_text(options.data, *run.tokens, job.global_batch, job.sequence));
  }
  return run;
}

// The other ranks of a launcher hear why this one cannot start, and do not wait for it.
Prepared prepare_or_refuse(const RunArguments& options,
                           const std::optional<runtime::RankEnvironment>& environment) {
  try {
    return prepare(options, environment);
  } catch (const Error& error) {
    if (environment.has_value()) {
      runtime::refuse(*environment, error.what());
    }
    throw;
  }
}

int run(const RunArguments& options, Console& console) {
  auto environment = runtime::rank_environment([](const char* name) { return std::getenv(name); });
  if (environment.has_value() && environment->ranks == 1 && options.backend == "cpu") {
    environment.reset();  // one process on the CPU holds as many ranks as the layout has
  }
  Prepared prepared = prepare_or_refuse(options, environment);
  RunDescription& description = prepared.description;
  for (const std::string& part : planner::lowering::parts_left_out(description.job.model)) {
    if (!console.quiet) {
      fmt::print(console.err, "trireme: {} of {} is left out of the training\n", part,
                 description.job.model.name);
    }
  }
  RunReport report(description, console);
  const RankRun ranks{
      .program = &description.program,
      .settings = prepared.settings,
      .tokens = prepared.tokens.get(),
      .told = std::move(prepared.told),
      .on_step = [&](std::int64_t step,
                     runtime::StepResults results) { report.step(step, std::move(results)); },
      .on_end = [&](const std::vector<runtime::MemoryUse>& memory) { report.finish(memory); }};
  if (options.backend != "cpu") {
    return run_on_cuda(ranks, environment, description, console.err);
  }
  runtime::cpu::CpuOptions cpu_options;
  cpu_options.arithmetic = arithmetic_of(description.precision);
  if (environment.has_value()) {
    return run_on_cpu_processes(ranks, *environment, cpu_options, console);
  }
  runtime::cpu::run_on_threads(description.program, cpu_options, prepared.settings.timeout,
                               [&](runtime::cpu::ThreadRank& self) {
                                 run_rank(ranks, self.executor, self.backend, self.coordinator);
                               });
  return kDone;
}

}  // namespace

void add_run_command(Command& app, Program& program) {
  auto options = std::make_shared<RunArguments>();
  Command* command = add_command(
      app, program, "run", "trains a plan with real numbers and measures it op by op",
      "trireme run --model gpt2 --backend cpu --seq 64 --tp 2 --steps 3 -o result.json");
  add_plan_file_option(*command, options->plan_file);
  add_job_options(*command, options->job);
  add_trained_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_training_options(*command, *options);
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
