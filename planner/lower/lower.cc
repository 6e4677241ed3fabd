// The table of contents of lowering. Each pass has its own file and reads only what earlier ones
// made.
#include "planner/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/error.h"
#include "core/verify.h"
#include "planner/cost/own_gradients.h"
#include "planner/lower/arithmetic.h"
#include "planner/lower/modelled_layer.h"
#include "planner/lower/place_ranks.h"
#include "planner/lower/stage.h"
#include "planner/lower/trained.h"
#include "planner/plan/moved_offload.h"
#include "planner/plan/narrow.h"
#include "planner/plan/shape.h"

namespace trireme::planner {
namespace {

void refuse(const Job& job, const Plan& plan, const std::string& what) {
  throw Error(short_form(plan), fmt::format("{}: {}", job.model.name, what));
}

// A step program holds every op of a step. What a layer and the end of a stage do in one
// micro-batch is some forty ops: so many passes are simulated within some twenty seconds and a few
// GiB.
void check_size(const Job& job, const Plan& plan) {
  constexpr double kMostPasses = 300'000;
  const std::int64_t each =
      models::trained_layers(job.model) + plan.pipeline * plan.virtual_pipeline;
  // A step of a ring is some eight ops more.
  const bool ring = plan.context > 1 && context_form(job.framework) == ContextForm::kRing;
  const double weight = ring ? 1 + static_cast<double>(plan.context) / 5 : 1;
  const double most = kMostPasses / (weight * static_cast<double>(each));
  if (static_cast<double>(plan.micro_batches) > most) {
    refuse(job, plan,
           fmt::format("{} micro-batches through {} layers and stages are too many for a step "
                       "program; at most {:.0f} would be right (a smaller --global-batch, or a "
                       "larger --micro-batch); estimate and plan predict any number",
                       plan.micro_batches, each, std::max(1.0, std::floor(most))));
  }
}

// Optimizer states and what layers keep, to the host's memory.
bool writes_offload(const Job& job) {
  Offload rest = job.offload;
  if (streams_optimizer(job)) {
    rest.optimizer = OffloadTo::kNone;
  }
  const bool own = job.framework.implementation == models::Implementation::kTrireme;
  if (own && rest.activations == OffloadTo::kHost) {
    rest.activations = OffloadTo::kNone;
  }
  return !rest.any();
}

void check_narrow(const Job& job, const Plan& plan) {
  for (const std::string& refusal : {narrow_refusal(job), narrow_refusal(job, plan)}) {
    if (!refusal.empty()) {
      refuse(job, plan, refusal);
    }
  }
}

void check_executable(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  check_narrow(job, plan);
  for (std::int64_t layer = 0; layer < models::trained_layers(model); ++layer) {
    if (const auto part = modelled_part(job, plan, layer); !part.empty()) {
      refuse(job, plan,
             fmt::format("layer {} has {}, which can be simulated but not executed", layer, part));
    }
  }
  if (const std::string part = lowering::uncomputed_part(model); !part.empty()) {
    refuse(job, plan, fmt::format("{} can be predicted and simulated, not executed", part));
  }
  if (model.function.attention_cap > 0 && plan.context > 1 &&
      context_form(job.framework) != ContextForm::kExchangeHeads) {
    refuse(job, plan,
           "capped scores (attention_cap) are executed under context parallelism that exchanges "
           "heads, not where keys are gathered or passed on");
  }
  if (model.embedding_norm) {
    refuse(job, plan, "the embedding's norm can be simulated but not executed");
  }
  if (!model.latent && model.kv_heads % plan.tensor != 0) {
    refuse(job, plan,
           fmt::format("{} kv heads do not divide by tp {}", model.kv_heads, plan.tensor));
  }
}

void check_supported(const Job& job, const Plan& plan, const LowerOptions& options) {
  check_size(job, plan);
  const models::Transformer& model = job.model;
  const std::pair<bool, std::string_view> parts[] = {
      {!job.training.lengths.empty(), "samples of varying lengths"},
      {!writes_offload(job),
       "offload other than this runtime's activations and optimizer states, whole, to the host"}};
  for (const auto& [there, part] : parts) {
    if (there) {
      refuse(job, plan,
             fmt::format("no step program for {} yet; estimate and plan predict it", part));
    }
  }
  if (const std::string part = lowering::untrained_part(job, plan); !part.empty()) {
    refuse(job, plan,
           fmt::format("no step program for {} yet; estimate and plan predict it", part));
  }
  for (std::int64_t layer = 0;
       job.offload.activations != OffloadTo::kNone && layer < models::trained_layers(model);
       ++layer) {
    if (const auto part = modelled_part(job, plan, layer); !part.empty()) {
      refuse(job, plan,
             fmt::format("no step program yet for offloaded activations of a layer with {}", part));
    }
  }
  if (splits_every_backward(plan.schedule) && !is_in_v(plan.schedule) &&
      plan.virtual_pipeline > 1) {
    refuse(job, plan, "zero-bubble schedules have one chunk a stage");
  }
  if (model.embedding_dim != 0 && model.embedding_dim != model.hidden) {
    refuse(job, plan, "no step program for an embedding narrower than the model yet");
  }
  if (options.executable) {
    check_executable(job, plan);
  }
}

StepProgram write_program(const Job& job, const Plan& asked, const Plan& plan,
                          const LowerOptions& options) {
  check_supported(job, plan, options);
  StepProgram program;
  program.name = short_form(plan);
  program.widths = options.widths;
  program.arithmetic = lowering::arithmetic_of(job.model, job.sequence);
  program.batch = {job.sequence, plan.micro_batch, plan.micro_batches, job.model.vocab};
  // Passes, in order: the grid of ranks; then, stage by stage, parameters and their buffers
  // (parameters.cc), the order of micro-batches (schedule.cc), the blocks visited and what they
  // need gathered (visits.cc), and the ops themselves (layer_*.cc, ends.cc) between gathers and
  // reductions (unit_keeper.cc), transfers (stage.cc) and the optimizer (optimizer.cc). Streams and
  // waits follow from each op's operands (builder.cc).
  const lowering::Groups groups = lowering::place_ranks(job, plan, program);
  Shape shape = shape_of(job, plan);
  shape.frees_gradients = !options.keep_gradients && frees_gradients(job, plan);
  shape.streams_optimizer = streams_optimizer(job);
  shape.streamed_elements = options.streamed_elements;
  shape.workspaces = !options.executable;
  const lowering::HeldMemory held(job, asked);
  for (std::int64_t stage = 0; stage < plan.pipeline; ++stage) {
    program.roles.push_back(lowering::write_stage(job, plan, shape, groups, held, program, stage));
  }
#ifndef NDEBUG
  const std::vector<std::string> problems = verify(program);
  TRIREME_CHECK(problems.empty());
#endif
  return program;
}

}  // namespace

StepProgram lower(const Job& job, const Plan& plan, const LowerOptions& options) {
  if (options.executable) {
    // What runs is this project's runtime, whatever framework's choices it follows.
    Job written = job;
    written.framework.implementation = models::Implementation::kTrireme;
    return write_program(written, plan, plan, options);
  }
  const RunSharding run = run_sharding(job, plan);
  Plan as_run = plan;
  as_run.sharding = run.sharding;
  as_run.reshard_after_forward = run.reshards;
  return write_program(job, plan, as_run, options);
}

}  // namespace trireme::planner
