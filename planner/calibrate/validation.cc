#include "planner/calibrate/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/embedded_file.h"
#include "core/error.h"
#include "planner/calibrate/published_memory.h"
#include "planner/cost/time.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> validation_rows();
}  // namespace embedded

namespace {

// Papers on offload print a rate alone, with the recomputed forward pass and all scores in it.
std::optional<double> seconds_of_rate(const PublishedRow& row, const PublishedCase& found) {
  const double tokens =
      static_cast<double>(found.job.global_batch) * static_cast<double>(found.job.sequence);
  const double flop = models::model_flop_per_token(found.job.model, found.job.sequence,
                                                   models::FlopConvention::kFullAttention)
                          .value;
  const double recomputed = found.plan.recompute == Recompute::kFull ? 4.0 / 3 : 1;
  return tokens * flop * recomputed /
         (*row.tflops_per_gpu * 1e12 * static_cast<double>(found.job.cluster.gpus));
}

// Step seconds as printed, or from tokens per second, or from TFLOP/s of the model.
std::optional<double> measured_of(const PublishedRow& row, const PublishedCase& found) {
  if (row.seconds_per_step) {
    return row.seconds_per_step;
  }
  if (found.skipped.empty() && row.offload && !row.tokens_per_s_per_gpu && row.tflops_per_gpu) {
    return seconds_of_rate(row, found);
  }
  if (!found.skipped.empty() || !row.tokens_per_s_per_gpu || *row.tokens_per_s_per_gpu <= 0) {
    return std::nullopt;
  }
  const double tokens =
      static_cast<double>(found.job.global_batch) * static_cast<double>(found.job.sequence);
  return tokens / (*row.tokens_per_s_per_gpu * static_cast<double>(found.job.cluster.gpus));
}

// Fastest of the candidates that fit, by step time for one sequence; of all when none fits.
PlanChooser fastest(const topologies::Profile& profile) {
  return [&profile](const Job& job, const std::vector<Plan>& candidates) {
    Job with_profile = job;
    with_profile.profile = profile;
    TimeModel time_model(with_profile);
    MemoryModel memory_model(with_profile);
    TimeEstimate time;
    MemoryEstimate memory;
    std::size_t best = 0;
    std::pair<bool, double> best_rank(false, 0);  // fits, sequences per second
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Plan& plan = candidates[i];
      time_model.estimate(plan, time);
      memory_model.estimate(plan, memory);
      const auto sequences =
          static_cast<double>(plan.micro_batch * plan.micro_batches * plan.data_parallel());
      const std::pair<bool, double> rank(memory.fit != Fit::kNo, sequences / time.step_seconds);
      if (rank > best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    return best;
  };
}

void predict_memory(const ValidationCase& one, const Job& job, ValidatedRow& row) {
  MemoryEstimate estimate;
  MemoryModel(job).estimate(one.found.plan, estimate);
  row.fit = estimate.fit;
  row.predicted_memory_gib = published_memory_gib(one.row, one.found.plan, estimate);
}

}  // namespace

std::vector<ValidationCase> validation_cases(const std::vector<PublishedFile>& files,
                                             const topologies::Profile& profile) {
  std::vector<ValidationCase> cases;
  const PlanChooser choose = fastest(profile);
  for (const PublishedFile& file : files) {
    for (const PublishedRow& row : file.rows) {
      ValidationCase one{row, row_to_case(row, choose), std::nullopt};
      one.measured_seconds = measured_of(row, one.found);
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

double predict_seconds(const ValidationCase& one, const topologies::Profile& profile) {
  Job job = one.found.job;
  job.profile = profile;
  TimeEstimate estimate;
  TimeModel(job).estimate(one.found.plan, estimate);
  return estimate.step_seconds;
}

namespace {

// Whether the row says more memory than its card has: then it is of another card, or of another
// layout, and nothing to be compared.
bool is_beyond_card(const PublishedRow& row, const PublishedCase& found) {
  const bool assumed_card = std::ranges::any_of(
      found.assumed, [](const std::string& words) { return words.starts_with("gpu="); });
  return row.peak_memory_gib && !assumed_card &&
         *row.peak_memory_gib > to_gib(found.job.cluster.gpu.memory);
}

}  // namespace

ValidatedRow validate_case(const ValidationCase& one, const topologies::Profile& profile) {
  ValidatedRow row;
  row.id = one.row.id;
  row.source = one.row.source;
  row.measured_seconds = one.measured_seconds;
  row.measured_memory_gib = one.row.peak_memory_gib;
  row.memory_kind = one.row.memory_kind;
  row.assumed = one.found.assumed;
  row.skipped = one.found.skipped;
  if (!row.skipped.empty()) {
    return row;
  }
  Job job = one.found.job;
  job.profile = profile;
  row.behaviour = full_name(job.framework);
  if (is_beyond_card(one.row, one.found)) {
    row.assumed.push_back(fmt::format("peak_memory_gib={:.1f} is more than {} has: not compared",
                                      *row.measured_memory_gib, job.cluster.gpu.name));
    row.measured_memory_gib.reset();
  }
  try {
    TimeEstimate estimate;
    TimeModel(job).estimate(one.found.plan, estimate);
    row.predicted_seconds = estimate.step_seconds;
    row.low_seconds = estimate.low_seconds;
    row.high_seconds = estimate.high_seconds;
    predict_memory(one, job, row);
  } catch (const Error& error) {
    row.skipped = error.what();
  }
  return row;
}

bool is_measured_row(const ValidationCase& one) {
  return one.found.skipped.empty() && one.row.outcome.empty();
}

std::vector<PublishedFile> shipped_rows() {
  std::vector<PublishedFile> files;
  for (const core::EmbeddedFile& file : embedded::validation_rows()) {
    files.push_back(parse_published(std::string(file.content), std::string(file.name)));
  }
  return files;
}

bool is_gated_row(const ValidationCase& one) {
  const PublishedRow& row = one.row;
  const Schedule schedule = one.found.plan.schedule;
  return one.found.skipped.empty() && one.measured_seconds && row.outcome.empty() &&
         !one.found.job.model.moe &&
         (one.found.job.precision == topologies::Precision::kBf16 ||
          one.found.job.precision == topologies::Precision::kFp16) &&
         (schedule == Schedule::kOneForwardOneBackward || schedule == Schedule::kInterleaved);
}

std::vector<SourceErrors> source_errors(const std::vector<ValidationCase>& cases,
                                        const std::vector<ValidatedRow>& rows,
                                        const std::function<bool(const ValidationCase&)>& counts) {
  std::vector<SourceErrors> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto found = std::find_if(all.begin(), all.end(), [&](const SourceErrors& errors) {
      return errors.source == rows[i].source;
    });
    if (found == all.end()) {
      all.push_back({.source = rows[i].source});
      found = all.end() - 1;
    }
    ++found->rows;
    if (!rows[i].skipped.empty()) {
      ++found->skipped;
      continue;
    }
    if (!counts(cases[i])) {
      continue;
    }
    if (rows[i].measured_memory_gib && rows[i].predicted_memory_gib) {
      const double error = *rows[i].predicted_memory_gib / *rows[i].measured_memory_gib - 1;
      ++found->memory_compared;
      found->memory_mean_absolute += std::abs(error);
      if (std::abs(error) > std::abs(found->memory_worst)) {
        found->memory_worst = error;
      }
    }
    if (!rows[i].measured_seconds || !rows[i].predicted_seconds) {
      continue;
    }
    const double error = *rows[i].predicted_seconds / *rows[i].measured_seconds - 1;
    ++found->compared;
    found->mean_absolute += std::abs(error);
    found->mean += error;
    if (std::abs(error) > std::abs(found->worst)) {
      found->worst = error;
    }
  }
  for (SourceErrors& errors : all) {
    if (errors.compared > 0) {
      errors.mean_absolute /= errors.compared;
      errors.mean /= errors.compared;
    }
    if (errors.memory_compared > 0) {
      errors.memory_mean_absolute /= errors.memory_compared;
    }
  }
  return all;
}

}  // namespace trireme::planner
