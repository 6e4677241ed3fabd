#include "runtime/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/error.h"
#include "runtime/agreement.h"
#include "runtime/checkpoint.h"

namespace trireme::runtime {
namespace {

// A result as bytes, for Coordinator::gather between processes of one machine type.
std::string pack_result(const StepResult& result) {
  std::vector<double> values = {result.loss,           result.has_loss ? 1.0 : 0.0,
                                result.gradient_norm,  result.has_gradient_norm ? 1.0 : 0.0,
                                result.duration.value, result.began};
  for (const OpTimes& op : result.ops) {
    values.insert(values.end(), {op.ready, op.start, op.end});
  }
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

StepResult unpack_result(const std::string& bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  TRIREME_CHECK(values.size() >= 6);
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  StepResult result{.loss = values[0],
                    .has_loss = values[1] != 0.0,
                    .gradient_norm = values[2],
                    .has_gradient_norm = values[3] != 0.0,
                    .duration = Seconds(values[4]),
                    .began = values[5],
                    .ops = {}};
  for (std::size_t i = 6; i + 2 < values.size(); i += 3) {
    result.ops.push_back({values[i], values[i + 1], values[i + 2]});
  }
  return result;
}

StepSettings settings_of_step(const TrainSettings& s, std::int64_t step, std::int64_t first) {
  const double ramp =
      s.warmup > 0 ? std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(s.warmup))
                   : 1.0;
  return {.learning_rate = s.learning_rate * ramp,
          .beta1 = s.beta1,
          .beta2 = s.beta2,
          .epsilon = s.epsilon,
          .weight_decay = s.weight_decay,
          .max_norm = s.max_norm,
          .step = step + 1,
          .timed = s.timed && (s.steps == 1 || (step - first) % 2 == 1)};
}

// Where hosts do not share the folder, each may hold another checkpoint, or one of them none.
CheckpointStep resume(const std::string& folder, RankExecutor& executor, Coordinator& coordinator) {
  CheckpointStep at;
  try {
    at = load_checkpoint(folder, executor);
  } catch (const Error& error) {
    refuse(coordinator, error.what());
    throw;
  }
  require_alike(coordinator,
                {{"--resume", fmt::format("a checkpoint of step {} after {} sequences, seed {}",
                                          at.step, at.sequences, at.seed)}});
  return at;
}

}  // namespace

void train(RankExecutor& executor, Coordinator& coordinator, const TokenSource& tokens,
           const TrainSettings& settings,
           const std::function<void(std::int64_t step, StepResults results)>& on_step) {
  const std::int64_t batch = global_batch_of(executor.program());
  CheckpointStep at{.step = 0, .sequences = 0, .seed = settings.seed};
  if (settings.resume_folder.empty()) {
    executor.initialise(settings.seed);
  } else {
    at = resume(settings.resume_folder, executor, coordinator);
  }
  const std::int64_t first = at.step;
  for (std::int64_t step = first; step < first + settings.steps; ++step) {
    coordinator.barrier();  // a common start, so that skew within the step is the step's own
    const StepResult result = executor.step(settings_of_step(settings, step, first), tokens,
                                            at.sequences, settings.timeout);
    at.step = step + 1;
    at.sequences += batch;
    StepResults results;
    for (const std::string& bytes : coordinator.gather(pack_result(result))) {
      results.push_back(unpack_result(bytes));
    }
    if (coordinator.rank() == Rank(0)) {
      on_step(step, std::move(results));
    }
    const bool last = step + 1 == first + settings.steps;
    if (!settings.save_folder.empty() &&
        (last || (settings.save_every > 0 && at.step % settings.save_every == 0))) {
      save_checkpoint(settings.save_folder, at, executor, coordinator);
    }
  }
}

double step_seconds(const StepResults& results) {
  double end = 0;
  for (const StepResult& result : results) {
    end = std::max(end, result.began + result.duration.value);
  }
  return end - results.front().began;
}

double loss_of(const StepResults& results) {
  for (const StepResult& result : results) {
    if (result.has_loss) {
      return result.loss;
    }
  }
  return std::nan("");
}

}  // namespace trireme::runtime
