#include "planner/cost/walked_passes.h"

#include <algorithm>

#include "planner/plan/schedule.h"

namespace trireme::planner {
namespace {

constexpr std::int64_t kMicroBatches = 3;

// The second forward is like the later ones, and the second backward, unless it is the last, of
// three.
WalkedPasses one_chunk(int count, int ahead) {
  WalkedPasses walked;
  walked.passes.last_micro_batch = count - 1;
  std::array<std::size_t, kMicroBatches> forward{};
  std::array<std::size_t, kMicroBatches> backward{};
  const auto add = [&](bool is_forward, int micro_batch) {
    auto& places = is_forward ? forward : backward;
    places[static_cast<std::size_t>(micro_batch)] = walked.passes.count;
    walked.passes.add({.forward = is_forward,
                       .first = true,
                       .last = true,
                       .micro_batch = micro_batch,
                       .chunk = 0});
  };
  for (int i = 0; i < count + ahead; ++i) {
    if (i < count) {
      add(true, i);
    }
    if (i + 1 >= ahead && i + 1 - ahead < count) {
      add(false, i + 1 - ahead);
    }
  }
  walked.likes = {{.pass = forward[count > 1 ? 1 : 0]}, {.pass = backward[count > 2 ? 1 : 0]}};
  std::sort(walked.likes.begin(), walked.likes.end(),
            [](const auto& a, const auto& b) { return a.pass < b.pass; });
  return walked;
}

// Between warm-up and cool-down a forward of one chunk and a backward of another in turn: the
// stage's first and last, those between, its last and first. Before and after, micro-batches of
// one chunk follow each other. Of two alike that follow each other the second stands for others.
WalkedPasses chunks_in_turn(bool ends, bool between) {
  WalkedPasses walked;
  const auto add = [&](bool forward, Place place, int chunk) {
    walked.passes.add({.forward = forward,
                       .first = ends && place == Place::kFirst,
                       .last = ends && place == Place::kLast,
                       .micro_batch = static_cast<int>(walked.passes.count),
                       .chunk = chunk});
  };
  const auto like_last = [&](Place place, bool in_turn) {
    walked.likes.push_back({walked.passes.count - 1, place, in_turn});
  };
  const std::array<Place, 3> places = {Place::kFirst, Place::kBetween, Place::kLast};
  const auto is_there = [&](Place place) { return place == Place::kBetween ? between : ends; };
  const auto follow = [&](bool forward, Place place) {
    if (is_there(place)) {
      add(forward, place, static_cast<int>(place));
      add(forward, place, static_cast<int>(place));
      like_last(place, false);
    }
  };
  std::for_each(places.begin(), places.end(), [&](Place place) { follow(true, place); });
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Place place = places[i];
    const Place other = places[places.size() - 1 - i];
    for (int again = 0; again < 2 && is_there(place); ++again) {
      const bool stands = again == 1;
      add(true, place, static_cast<int>(place));
      if (stands) {
        like_last(place, true);
      }
      add(false, other, other == Place::kBetween ? 3 : static_cast<int>(other));
      if (stands) {
        like_last(place, true);
      }
    }
  }
  std::for_each(places.rbegin(), places.rend(), [&](Place place) { follow(false, place); });
  walked.passes.last_micro_batch = static_cast<int>(walked.passes.count) - 1;
  return walked;
}

// Of an interleaved schedule's forwards, those before the first backward (training_systems 4), the
// mean over ranks.
double alone_share(const Plan& plan) {
  const auto p = static_cast<double>(plan.pipeline);
  const auto v = static_cast<double>(plan.virtual_pipeline);
  const double turns = static_cast<double>(plan.micro_batches) * v;
  const double warm_up = p - 1 + (v - 1) * static_cast<double>(group_size_of(plan));
  return std::min(1.0, warm_up / turns);
}

}  // namespace

PassPattern pass_pattern(const Plan& plan, bool embedding, bool head) {
  PassPattern pattern;
  if (plan.virtual_pipeline > 1) {
    const bool ends = embedding || head;
    pattern.ends = ends ? 1 : 0;
    pattern.between = !ends || plan.virtual_pipeline > 2 ? 1 : 0;
    return pattern;
  }
  const std::int64_t count = std::min(kMicroBatches, plan.micro_batches);
  const bool pipeline = plan.pipeline > 1;
  pattern.micro_batches = static_cast<std::uint8_t>(count);
  // Stages before the last have another micro-batch under way, GPipe's have all.
  pattern.ahead = static_cast<std::uint8_t>(pipeline && plan.schedule == Schedule::kGpipe ? count
                                            : pipeline && !head ? std::min<std::int64_t>(2, count)
                                                                : 1);
  return pattern;
}

WalkedPasses walked_passes(const PassPattern& pattern) {
  return pattern.micro_batches > 0 ? one_chunk(pattern.micro_batches, pattern.ahead)
                                   : chunks_in_turn(pattern.ends != 0, pattern.between != 0);
}

PassCounts pass_counts(const Plan& plan, const PassPattern& pattern) {
  PassCounts counts;
  if (pattern.micro_batches > 0) {
    return counts;
  }
  const auto chunks = static_cast<double>(plan.virtual_pipeline);
  const bool ends = pattern.ends != 0;
  counts.chunks = {ends ? 1.0 : 0.0, ends ? chunks - 2 : chunks, ends ? 1.0 : 0.0};
  counts.alone = alone_share(plan);
  return counts;
}

}  // namespace trireme::planner
