#include "planner/budget/whole_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <thread>
#include <vector>

namespace trireme::planner {

namespace {

// Numbers of one trial: SplitMix64 (Steele et al. 2014), a stream a trial.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t trial)
      : state_(seed * 0x9E3779B97F4A7C15ULL + trial * 0xD1B54A32D192ED03ULL) {
    next();
  }
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  std::uint64_t state_;
};

struct Trial {
  double seconds = 0;
  double failures = 0;
  bool ends = true;
};

constexpr double kFailuresMost = 5e6;  // a trial with more does not end

// What a trial goes through. Between two failures the run saves every `interval`; a failure takes
// back what came after the last durable save.
class Course {
 public:
  Course(const WholeRun& run, Random random) : run_(run), random_(random) {}

  Trial go() {
    Trial trial;
    while (true) {
      const double until = random_.exponential(run_.stops.mean_between);
      const double needed = wall_of(run_.useful_seconds - saved_);
      if (until * speed_ >= needed) {
        trial.seconds = now_ + needed / speed_;
        return trial;
      }
      saved_ += kept_after(until * speed_);
      now_ += until;
      ++trial.failures;
      if (trial.failures > kFailuresMost) {
        trial.ends = false;
        trial.seconds = now_;
        return trial;
      }
      restart(trial);
    }
  }

 private:
  // Wall seconds of useful ones, with the saves between them; none after the last.
  [[nodiscard]] double wall_of(double useful) const {
    if (run_.interval <= 0) {
      return useful;
    }
    const double saves = std::max(0.0, std::ceil(useful / run_.interval) - 1);
    return useful + saves * run_.stops.save;
  }

  // Useful seconds that the last durable save holds, `wall` after training began again.
  [[nodiscard]] double kept_after(double wall) const {
    if (run_.interval <= 0) {
      return 0;
    }
    const double durable = std::max(run_.stops.durable, run_.stops.save);
    const double cycle = run_.interval + run_.stops.save;
    // Save n starts at n * interval + (n - 1) * save.
    const double saves = std::floor((wall - durable + run_.stops.save) / cycle);
    return std::max(0.0, saves) * run_.interval;
  }

  // A failure during the restart begins it again.
  void restart(Trial& trial) {
    replace_node();
    while (true) {
      const double until = random_.exponential(run_.stops.mean_between);
      if (until >= run_.stops.restart) {
        now_ += run_.stops.restart;
        return;
      }
      now_ += until;
      ++trial.failures;
      if (trial.failures > kFailuresMost) {
        return;
      }
    }
  }

  void replace_node() {
    const Repairs& repairs = run_.repairs;
    if (repairs.spares < 0 || repairs.seconds <= 0 || random_.uniform() >= repairs.needs_node) {
      return;
    }
    while (!away_.empty() && away_.top() <= now_) {
      away_.pop();
    }
    away_.push(now_ + repairs.seconds);
    speed_ = 1;
    if (static_cast<std::int64_t>(away_.size()) <= repairs.spares) {
      return;
    }
    if (repairs.speed_without_one > 0) {
      speed_ = repairs.speed_without_one;
      return;
    }
    while (static_cast<std::int64_t>(away_.size()) > repairs.spares) {
      now_ = std::max(now_, away_.top());
      away_.pop();
    }
  }

  const WholeRun& run_;
  Random random_;
  double now_ = 0;
  double saved_ = 0;  // useful seconds that a restart begins with
  double speed_ = 1;
  std::priority_queue<double, std::vector<double>, std::greater<>> away_;  // when nodes come back
};

std::vector<Trial> all_trials(const WholeRun& run) {
  std::vector<Trial> trials(static_cast<std::size_t>(std::max(1, run.trials)));
  const auto threads = static_cast<std::size_t>(std::max(1, run.threads));
  const auto work = [&](std::size_t first) {
    for (std::size_t i = first; i < trials.size(); i += threads) {
      trials[i] = Course(run, Random(run.seed, i)).go();
      if (!trials[i].ends) {
        return;
      }
    }
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back(work, i);
  }
  work(0);
  for (std::thread& other : others) {
    other.join();
  }
  return trials;
}

WholeRunResult without_failures(const WholeRun& run) {
  const double saves =
      run.interval > 0 ? std::max(0.0, std::ceil(run.useful_seconds / run.interval) - 1) : 0;
  WholeRunResult result;
  result.mean_seconds = result.low_seconds = result.high_seconds =
      run.useful_seconds + saves * run.stops.save;
  result.goodput = result.mean_seconds > 0 ? run.useful_seconds / result.mean_seconds : 1;
  return result;
}

}  // namespace

WholeRunResult simulate_run(const WholeRun& run) {
  if (run.stops.mean_between <= 0) {
    return without_failures(run);
  }
  WholeRunResult result;
  // What takes a hundred times its useful time is answered by the closed form's word, not
  // simulated.
  if (run.interval > 0 && goodput_of(run.stops, run.interval) < 0.01) {
    result.ends = false;
    return result;
  }
  const std::vector<Trial> trials = all_trials(run);
  std::vector<double> seconds;
  for (const Trial& trial : trials) {
    result.ends = result.ends && trial.ends;
    seconds.push_back(trial.seconds);
    result.failures += trial.failures / static_cast<double>(trials.size());
  }
  if (!result.ends) {
    return result;
  }
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  result.mean_seconds =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  result.low_seconds = at(0.05);
  result.high_seconds = at(0.95);
  result.goodput = run.useful_seconds / result.mean_seconds;
  return result;
}

double best_simulated_interval(WholeRun run) {
  const double middle = best_interval(run.stops);
  if (middle <= 0) {
    return 0;
  }
  // The same random numbers for every interval: what differs is the interval alone.
  constexpr double kRatio = 1.05;
  double best = middle;
  double most = 0;
  for (int step = -8; step <= 8; ++step) {
    run.interval = middle * std::pow(kRatio, step);
    const WholeRunResult result = simulate_run(run);
    if (result.ends && result.goodput > most) {
      most = result.goodput;
      best = run.interval;
    }
  }
  return best;
}

}  // namespace trireme::planner
