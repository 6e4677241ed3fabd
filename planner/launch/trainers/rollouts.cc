#include "planner/launch/trainers/rollouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace trireme::planner {

namespace {

// Packs of a step of so many samples, as many on every rank.
std::int64_t packs_in(std::int64_t samples, std::int64_t longest, std::int64_t pack,
                      const RolloutSamples& given) {
  const std::int64_t ranks = std::max<std::int64_t>(1, given.ranks);
  const std::int64_t together = std::max<std::int64_t>(1, pack / longest);
  const std::int64_t each = given.dealt
                                ? ((samples + ranks - 1) / ranks * longest + pack - 1) / pack
                                : ((samples + together - 1) / together + ranks - 1) / ranks;
  const std::int64_t group = std::max<std::int64_t>(1, given.divisor);
  return std::max<std::int64_t>(1, (each + group - 1) / group) * group * ranks;
}

}  // namespace

std::int64_t data_ranks(const LaunchConfig& config) {
  const LaunchLayout& layout = config.layout;
  const std::int64_t together =
      layout.tensor.value_or(1) * layout.pipeline.value_or(1) * layout.context.value_or(1);
  const std::int64_t gpus = std::min(config.gpus.value_or(1), kMostGpus);
  return std::max<std::int64_t>(1, gpus / together);
}

RolloutPacks packs_of(const RolloutSamples& samples, std::int64_t pack, LaunchConfig& config) {
  const std::int64_t longest = samples.longest.value_or(pack);
  constexpr double kMostTokens = 1e17;
  if (samples.step &&
      static_cast<double>(*samples.step) * static_cast<double>(longest) > kMostTokens) {
    throw Error(config.source, fmt::format("its step is {} samples of {} tokens; fewer would be "
                                           "right",
                                           *samples.step, longest));
  }
  RolloutPacks packs{.sequence = std::max(pack, longest), .batch = {}};
  if (samples.step) {
    packs.batch = packs_in(*samples.step, longest, pack, samples);
  }
  if (longest < pack) {
    config.training.lengths = {{longest, 1}};
    config.training.batching = Batching::kPacked;
  }
  config.remarks.push_back(fmt::format(
      "{}: a micro-batch is a pack of samples of {} tokens together ({} on each rank of cp); {}",
      samples.by, pack, samples.limit,
      !samples.step ? std::string("how many samples a step has is not in the file")
      : samples.longest
          ? fmt::format("the step is that of {} packs, which {} samples of the full {} tokens "
                        "make, and shorter ones take less",
                        *packs.batch, *samples.step, *samples.longest)
          : fmt::format("how long its {} samples are is not in the file: each is counted as "
                        "a pack of its own",
                        *samples.step)));
  if (samples.longest.value_or(0) > pack) {
    note_unpacked(config);
  } else if (samples.dealt) {  // into packs of one size, which may be well below the limit
    config.unmodelled.emplace_back("the share of a pack that samples fill");
  }
  return packs;
}

void note_beside(LaunchConfig& config, std::string what) {
  config.beside.push_back(std::move(what));
}

void note_actor(LaunchConfig& config, double steps) {
  config.remarks.push_back(fmt::format(
      "the step is that of the actor's training{}: what rollouts and other models take is not in "
      "it",
      steps > 1 ? fmt::format(", of which a rollout makes {:.0f}", std::floor(steps)) : ""));
}

}  // namespace trireme::planner
