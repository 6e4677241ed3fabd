#include "planner/calibrate/run_fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/cost/time.h"

namespace trireme::planner {
namespace {

// What corrections scale: op times by category, and what compute loses beside communication; and
// how far each is off before any run was seen, in logarithms. The loss depends on how a product's
// tiles meet the multiprocessors that are left, which one benchmark hardly tells.
struct Category {
  const char* name;
  double prior_spread;
};
constexpr std::array<Category, 4> kCategories = {
    {{"compute", 0.15}, {"collective", 0.15}, {"send_recv", 0.15}, {"overlap", 0.5}}};
constexpr Eigen::Index kCount = kCategories.size();

// Time to issue kernels shows only where it exceeds the GPU's, so that no share of the step says
// what more of it would do: it is tried in steps. A host takes half to twice as long as was fitted.
constexpr const char* kHost = "host";
constexpr double kHostSpread = 0.7;
constexpr double kHostStep = 0.1;
constexpr int kHostSteps = 21;  // up to 8 times

// How far one run scatters about its category (of one that was never repeated), and how far step
// times scatter about a corrected model; in logarithms.
constexpr double kRunSpread = 0.08;
constexpr double kStepSpread = 0.05;
constexpr double kPriorWeight = 2;  // of those spreads, in runs

using Shares = Eigen::Matrix<double, kCount, 1>;

// ln(measured / predicted) of something whose time is shared among the categories.
struct Observation {
  Shares shares = Shares::Zero();
  double log_ratio = 0;  // under the profile as it came
};

struct Prediction {
  double seconds = 0;
  Shares shares = Shares::Zero();
};

Prediction predict(const MeasuredRun& run, const topologies::Profile& profile) {
  Prediction prediction;
  if (run.job) {
    Job job = *run.job;
    job.profile = profile;
    TimeEstimate estimate;
    TimeModel(job).estimate(run.plan, estimate);
    const TimeItems& items = estimate.exposed;
    prediction.seconds = estimate.step_seconds;
    prediction.shares = {items.compute + items.pipeline_bubble + items.optimizer,
                         items.tensor_parallel + items.context_parallel + items.expert_parallel +
                             items.data_parallel,
                         items.pipeline_p2p,
                         behaviour_fit(job).overlap_slowdown *
                             std::max(0.0, estimate.hidden_communication_seconds)};
    prediction.shares /= prediction.seconds;
    return prediction;
  }
  // Of a result: its predictions were made once; corrections scale them by category.
  double total = 0;
  for (Eigen::Index c = 0; c < kCount; ++c) {
    const auto found = run.categories.find(kCategories[static_cast<std::size_t>(c)].name);
    if (found != run.categories.end()) {
      prediction.shares[c] = found->second.predicted;
      total += found->second.predicted;
    }
  }
  if (total > 0) {
    prediction.shares /= total;
  }
  prediction.seconds = run.predicted_step_seconds;
  return prediction;
}

topologies::Profile corrected(const topologies::Profile& base, const Shares& logs) {
  topologies::Profile profile = base;
  for (Eigen::Index c = 0; c < kCount; ++c) {
    const char* category = kCategories[static_cast<std::size_t>(c)].name;
    profile.corrections[category].factor =
        topologies::correction_of(base, category) * std::exp(logs[c]);
  }
  return profile;
}

topologies::Profile with_host(const topologies::Profile& base, double host_log) {
  topologies::Profile profile = base;
  profile.corrections[kHost].factor = topologies::correction_of(base, kHost) * std::exp(host_log);
  return profile;
}

double corrected_seconds(const MeasuredRun& run, const topologies::Profile& base,
                         const Shares& logs) {
  if (run.job) {
    return predict(run, corrected(base, logs)).seconds;
  }
  const Prediction before = predict(run, base);
  double factor = 1;
  for (Eigen::Index c = 0; c < kCount; ++c) {
    factor += before.shares[c] * (std::exp(logs[c]) - 1);
  }
  return before.seconds * factor;
}

// What each run says, linear about `logs`.
std::vector<Observation> observe(const std::vector<MeasuredRun>& runs,
                                 const topologies::Profile& base, const Shares& logs) {
  std::vector<Observation> observations;
  for (const MeasuredRun& run : runs) {
    for (Eigen::Index c = 0; c < kCount; ++c) {
      const auto found = run.categories.find(kCategories[static_cast<std::size_t>(c)].name);
      if (found != run.categories.end() && found->second.predicted > 0 &&
          found->second.measured > 0) {
        Observation one;
        one.shares[c] = 1;
        one.log_ratio = std::log(found->second.measured / found->second.predicted);
        observations.push_back(one);
      }
    }
    if (run.job && run.step_seconds > 0) {
      const Prediction now = predict(run, corrected(base, logs));
      Observation one;
      one.shares = now.shares;
      one.log_ratio = std::log(run.step_seconds / now.seconds) + now.shares.dot(logs);
      observations.push_back(one);
    }
  }
  return observations;
}

struct Posterior {
  Shares logs = Shares::Zero();
  Shares evidence = Shares::Zero();  // 0: nothing seen, 1: the runs decide alone
};

// Ridge regression towards no correction; the spread of the runs is estimated with them.
Posterior solve(const std::vector<Observation>& observations) {
  Posterior posterior;
  Shares prior;
  std::ranges::transform(kCategories, prior.begin(), [](const Category& category) {
    return category.prior_spread * category.prior_spread;
  });
  double variance = kRunSpread * kRunSpread;
  for (int round = 0; round < 4; ++round) {
    Eigen::Matrix<double, kCount, kCount> precision = prior.cwiseInverse().asDiagonal();
    Shares pull = Shares::Zero();
    for (const Observation& one : observations) {
      precision += one.shares * one.shares.transpose() / variance;
      pull += one.shares * one.log_ratio / variance;
    }
    const Eigen::Matrix<double, kCount, kCount> covariance = precision.inverse();
    posterior.logs = covariance * pull;
    posterior.evidence = Shares::Ones() - covariance.diagonal().cwiseQuotient(prior);
    double squares = kPriorWeight * kRunSpread * kRunSpread;
    for (const Observation& one : observations) {
      const double error = one.log_ratio - one.shares.dot(posterior.logs);
      squares += error * error;
    }
    variance = squares / (kPriorWeight + static_cast<double>(observations.size()));
  }
  return posterior;
}

// What the runs say at each length of the host's time.
struct HostTrial {
  double log = 0;
  std::vector<std::vector<Observation>> of_run;
};

std::vector<HostTrial> host_trials(const std::vector<MeasuredRun>& runs,
                                   const topologies::Profile& base) {
  std::vector<HostTrial> trials;
  for (int step = -kHostSteps / 3; step <= kHostSteps; ++step) {
    HostTrial trial{kHostStep * step, {}};
    const topologies::Profile profile = with_host(base, trial.log);
    for (const MeasuredRun& run : runs) {
      trial.of_run.push_back(observe({run}, profile, Shares::Zero()));
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

// Twice the negative logarithm of how likely the runs but one are, at the best other corrections.
double unlikelihood(const HostTrial& trial, std::size_t left_out) {
  std::vector<Observation> observations;
  for (std::size_t run = 0; run < trial.of_run.size(); ++run) {
    if (run != left_out) {
      observations.insert(observations.end(), trial.of_run[run].begin(), trial.of_run[run].end());
    }
  }
  const Posterior posterior = solve(observations);
  double sum = trial.log * trial.log / (kHostSpread * kHostSpread);
  for (Eigen::Index c = 0; c < kCount; ++c) {
    const double spread = kCategories[static_cast<std::size_t>(c)].prior_spread;
    sum += posterior.logs[c] * posterior.logs[c] / (spread * spread);
  }
  for (const Observation& one : observations) {
    const double error = one.log_ratio - one.shares.dot(posterior.logs);
    sum += error * error / (kRunSpread * kRunSpread);
  }
  return sum;
}

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

struct HostChoice {
  double log = 0;
  double evidence = 0;  // as of Posterior: how much better than no correction the runs are told
};

HostChoice choose_host(const std::vector<HostTrial>& trials, std::size_t left_out) {
  HostChoice choice;
  double least = 0;
  double without = 0;
  for (const HostTrial& trial : trials) {
    const double sum = unlikelihood(trial, left_out);
    if (trial.log == 0) {
      without = sum;
    }
    if (&trial == &trials.front() || sum < least) {
      least = sum;
      choice.log = trial.log;
    }
  }
  choice.evidence = 1 - std::exp((least - without) / 2);
  return choice;
}

// 95 % point of Student's t (Cornish-Fisher expansion; within 1 % from 3 degrees of freedom up).
double student_95(double freedom) {
  const double z = 1.6449;
  const double z3 = z * z * z;
  const double z5 = z3 * z * z;
  return z + (z3 + z) / (4 * freedom) + (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

// Where 90 % of further runs lie, from what each run would have been off by had it not been among
// those that set the corrections.
std::optional<topologies::MeasuredInterval> interval_from(const std::vector<MeasuredRun>& runs,
                                                          const std::vector<HostTrial>& trials,
                                                          const topologies::Profile& unchanged) {
  std::vector<double> errors;
  for (std::size_t left_out = 0; left_out < runs.size(); ++left_out) {
    const MeasuredRun& run = runs[left_out];
    std::vector<MeasuredRun> others = runs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    const topologies::Profile base = with_host(unchanged, choose_host(trials, left_out).log);
    const Posterior posterior = solve(observe(others, base, Shares::Zero()));
    const double predicted = corrected_seconds(run, base, posterior.logs);
    if (run.step_seconds > 0 && predicted > 0) {
      errors.push_back(std::log(run.step_seconds / predicted));
    }
  }
  if (errors.empty()) {
    return std::nullopt;
  }
  const auto n = static_cast<double>(errors.size());
  double mean = 0;
  for (const double error : errors) {
    mean += error / (n + kPriorWeight);
  }
  double squares = kPriorWeight * kStepSpread * kStepSpread;
  for (const double error : errors) {
    squares += (error - mean) * (error - mean);
  }
  const double spread = std::sqrt(squares / (kPriorWeight + n));
  const double reach = student_95(kPriorWeight + n) * spread;
  return topologies::MeasuredInterval{std::exp(mean - reach), std::exp(mean + reach),
                                      static_cast<int>(errors.size())};
}

}  // namespace

RunFit fit_runs(const std::vector<MeasuredRun>& runs, topologies::Profile& profile) {
  const topologies::Profile unchanged = profile;
  const std::vector<HostTrial> trials = host_trials(runs, unchanged);
  const HostChoice host = choose_host(trials, kNone);
  const topologies::Profile base = with_host(unchanged, host.log);
  Posterior posterior;
  for (int round = 0; round < 3; ++round) {
    const std::vector<Observation> observations = observe(runs, base, posterior.logs);
    if (observations.empty()) {
      throw Error("--from-run", "none of the runs has both a measurement and a prediction");
    }
    posterior = solve(observations);
  }
  for (Eigen::Index c = 0; c < kCount; ++c) {
    const char* category = kCategories[static_cast<std::size_t>(c)].name;
    constexpr double kSilent = 0.01;  // a category that the runs hardly have keeps what it was
    if (posterior.evidence[c] < kSilent) {
      posterior.logs[c] = 0;
      continue;
    }
    topologies::Correction& correction = profile.corrections[category];
    correction.factor *= std::exp(posterior.logs[c]);
    correction.runs += static_cast<int>(runs.size());
    correction.evidence = posterior.evidence[c];
  }
  if (host.log != 0) {
    topologies::Correction& correction = profile.corrections[kHost];
    correction.factor *= std::exp(host.log);
    correction.runs += static_cast<int>(runs.size());
    correction.evidence = host.evidence;
  }
  profile.interval = interval_from(runs, trials, unchanged);
  RunFit fit;
  int compared = 0;
  for (const MeasuredRun& run : runs) {
    RunFitLine line{run.name, run.step_seconds, predict(run, unchanged).seconds,
                    corrected_seconds(run, base, posterior.logs)};
    if (line.measured_seconds > 0 && line.before_seconds > 0) {
      fit.error_before += std::abs(line.before_seconds / line.measured_seconds - 1);
      fit.error_after += std::abs(line.after_seconds / line.measured_seconds - 1);
      ++compared;
    }
    fit.runs.push_back(std::move(line));
  }
  if (compared > 0) {
    fit.error_before /= compared;
    fit.error_after /= compared;
  }
  return fit;
}

}  // namespace trireme::planner
