#include "tests/conformance/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <thread>

#include "planner/lower/lower.h"
#include "planner/plan/rules.h"
#include "runtime/cpu/processes.h"
#include "runtime/cpu/threads.h"
#include "runtime/launch.h"
#include "runtime/train.h"
#include "tests/conformance/filled_adapters.h"

namespace trireme::conformance {

models::Transformer small_model(const std::string& kind) {
  models::Transformer model;
  model.name = "small-" + kind;
  model.layers = 8;
  model.hidden = 32;
  model.heads = 8;
  model.kv_heads = 8;
  model.head_dim = 4;
  model.ffn = 48;
  model.vocab = 64;
  model.max_sequence = 16;
  if (kind == "gpt") {
    model.position = models::Position::kLearned;
    model.position_rows = 16;
    model.norm = models::Norm::kLayerNorm;
    model.gated_mlp = false;
    model.function.activation = "gelu_tanh";
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
    model.tied_embeddings = true;
  } else {
    model.kv_heads = 4;
  }
  if (kind == "qwen") {
    model.qkv_bias = model.qk_norm = model.tied_embeddings = true;
    model.head_dim = 6;
  }
  return model;
}

planner::Job small_job(const models::Transformer& model, const std::string& framework) {
  planner::Job job;
  job.model = model;
  job.framework = planner::find_framework(framework);
  job.sequence = 16;
  job.global_batch = 8;
  return job;
}

planner::Job small_trained_job(const std::string& model, std::int64_t lora_rank,
                               std::int64_t frozen_layers) {
  planner::Job job = small_job(small_model(model), "trireme");
  job.training.rank = lora_rank;
  job.training.targets = planner::adapter_targets_of("all-linear");
  job.training.frozen_layers = frozen_layers;
  return job;
}

namespace {

// A time-out that ends nothing here: a wait that only it would end fails the test by the runner's.
constexpr Seconds kNever(3600);

constexpr std::uint64_t kSeed = 20240607;

// Puts a rank's slice into the whole tensor; two ranks that hold the same element must hold the
// same value.
void merge(const StepProgram& program, runtime::RankExecutor& executor, State state,
           Tensors& tensors) {
  for (const ParameterSlice& slice : parameter_slices(program, executor.rank(), state)) {
    const Parameter& parameter = executor.role().parameters[slice.parameter];
    std::vector<double>& whole = tensors[parameter.name];
    whole.resize(static_cast<std::size_t>(parameter.rows * parameter.columns), std::nan(""));
    const std::vector<double> values = executor.read_slice(slice);
    std::int64_t disagreements = 0;
    for (std::int64_t i = 0; i < slice.count; ++i) {
      const std::int64_t flat = slice.flat_begin + i;
      const std::int64_t row = slice.row_begin + flat / slice.column_count;
      const std::int64_t column = slice.column_begin + flat % slice.column_count;
      double& entry = whole[static_cast<std::size_t>(row * parameter.columns + column)];
      const double value = values[static_cast<std::size_t>(i)];
      disagreements +=
          !std::isnan(entry) && std::abs(entry - value) > 1e-12 * std::max(1e-3, std::abs(entry))
              ? 1
              : 0;
      entry = value;
    }
    EXPECT_EQ(disagreements, 0) << program.name << ": rank " << index_of(executor.rank())
                                << " holds another " << to_string(state) << " of "
                                << parameter.name;
  }
}

void run_on_processes(const StepProgram& program, const runtime::cpu::CpuOptions& options,
                      const std::function<void(runtime::cpu::ThreadRank&)>& body) {
  runtime::Listener listener = runtime::listen_at({"127.0.0.1", 0});
  const runtime::StoreAddress master{"127.0.0.1", listener.port};
  const int served = listener.socket.release();
  std::vector<std::thread> processes;
  for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
    processes.emplace_back([&, rank] {
      try {
        const auto coordinator =
            runtime::make_store_coordinator({.rank = Rank(rank),
                                             .ranks = program.ranks,
                                             .local_rank = rank,
                                             .master = master,
                                             .launcher = "local",
                                             .listener = rank == 0 ? served : -1},
                                            kNever);
        runtime::cpu::Processes others(*coordinator, master, kNever);
        const auto backend =
            runtime::cpu::make_cpu_backend(program, Rank(rank), others.exchange(), options);
        runtime::RankExecutor executor(program, Rank(rank), *backend);
        runtime::cpu::ThreadRank self{executor, *backend, *coordinator};
        body(self);
        coordinator->barrier();  // nobody leaves while others receive
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
}

}  // namespace

Outcome train(planner::Job job, const planner::Plan& plan, std::int64_t steps,
              const runtime::cpu::CpuOptions& options, bool keep_gradients, Ranks ranks,
              std::int64_t streamed_elements) {
  job.cluster.gpus = plan.gpus();
  if (const auto violation = planner::check_plan(job, plan)) {
    ADD_FAILURE() << planner::short_form(plan) << ": " << violation->detail;
    return {};
  }
  const StepProgram program = planner::lower(job, plan,
                                             {.widths = runtime::cpu::widths_of(options.arithmetic),
                                              .executable = true,
                                              .keep_gradients = keep_gradients,
                                              .streamed_elements = streamed_elements});
  const auto tokens = runtime::synthetic_tokens(kSeed, job.model.vocab);
  Outcome outcome;
  outcome.allocator_peaks.resize(static_cast<std::size_t>(program.ranks));
  std::mutex mutex;
  const auto body = [&](runtime::cpu::ThreadRank& self) {
    self.executor.initialise(kSeed);
    tests::fill_adapters(self.executor);
    for (std::int64_t step = 0; step < steps; ++step) {
      const runtime::StepSettings settings{.learning_rate = 1e-3 * static_cast<double>(step + 1),
                                           .weight_decay = 0.1,
                                           .max_norm = 0.05,
                                           .step = step + 1};
      const auto result = self.executor.step(settings, *tokens, step * job.global_batch, kNever);
      const std::lock_guard lock(mutex);
      if (result.has_loss && static_cast<std::int64_t>(outcome.losses.size()) == step) {
        outcome.losses.push_back(result.loss);
      }
      if (result.has_gradient_norm &&
          static_cast<std::int64_t>(outcome.gradient_norms.size()) == step) {
        outcome.gradient_norms.push_back(result.gradient_norm);
      }
      if (step == 0 && keep_gradients) {
        merge(program, self.executor, State::kGradient, outcome.gradients);
      }
    }
    const std::lock_guard lock(mutex);
    merge(program, self.executor, State::kMaster, outcome.parameters);
    outcome.allocator_peaks[index_of(self.executor.rank())] =
        self.backend.memory().allocated_peak.value;
  };
  if (ranks == Ranks::kProcesses) {
    run_on_processes(program, options, body);
  } else {
    runtime::cpu::run_on_threads(program, options, kNever, body);
  }
  for (std::uint32_t rank = 0; rank < program.ranks; ++rank) {
    outcome.liveness_peaks.push_back(
        liveness(program, program.roles[index_of(role_of(program, Rank(rank)))]).peak.value);
  }
  return outcome;
}

double largest_difference(const Tensors& a, const Tensors& b, double floor) {
  EXPECT_EQ(a.size(), b.size());
  const auto largest_entry = [](const std::vector<double>& tensor) {
    double largest = 0;
    for (const double value : tensor) {
      largest = std::max(largest, std::abs(value));
    }
    return largest;
  };
  double largest = 0;
  for (const auto& [name, tensor] : b) {
    largest = std::max(largest, largest_entry(tensor));
  }
  double worst = 0;
  for (const auto& [name, tensor] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.size() != tensor.size()) {
      ADD_FAILURE() << name << " is missing or has another size";
      return 1e300;
    }
    const double scale = std::max(largest_entry(tensor), floor * largest);
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      const double difference = std::abs(found->second[i] - tensor[i]) / scale;
      worst = std::isnan(difference) ? 1e300 : std::max(worst, difference);
    }
  }
  return worst;
}

double spread(const Tensors& actual, const Tensors& reference) {
  double difference = 0;
  double size = 0;
  for (const auto& [name, tensor] : reference) {
    const std::vector<double>& other = actual.at(name);
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      difference += (other[i] - tensor[i]) * (other[i] - tensor[i]);
      size += tensor[i] * tensor[i];
    }
  }
  return std::sqrt(difference / size);
}

}  // namespace trireme::conformance
