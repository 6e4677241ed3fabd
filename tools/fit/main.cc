#include <fmt/format.h>

#include <cstring>

#include "core/error.h"
#include "planner/calibrate/fit.h"
#include "planner/calibrate/validation.h"
#include "planner/cost/time.h"
#include "tools/fit/profile_file.h"

using namespace trireme;

int main(int argc, char** argv) {
  try {
    std::string rows = "/work/shared/data/published";
    std::string only;
    std::string profile_path, write, match, left_out;
    int evaluations = 600;
    for (int i = 1; i + 1 < argc; i += 2) {
      if (std::strcmp(argv[i], "--rows") == 0)
        rows = argv[i + 1];
      if (std::strcmp(argv[i], "--only") == 0)
        only = argv[i + 1];
      if (std::strcmp(argv[i], "--profile") == 0)
        profile_path = argv[i + 1];
      if (std::strcmp(argv[i], "--write") == 0)
        write = argv[i + 1];
      if (std::strcmp(argv[i], "--group") == 0)
        match = argv[i + 1];
      if (std::strcmp(argv[i], "--without") == 0)
        left_out = argv[i + 1];
      if (std::strcmp(argv[i], "--evaluations") == 0)
        evaluations = std::stoi(argv[i + 1]);
    }
    topologies::Profile profile = profile_path.empty() ? topologies::shipped_profile()
                                                       : topologies::load_profile(profile_path);
    const auto cases = planner::validation_cases(planner::read_published(rows), profile);
    if (!write.empty()) {
      for (const planner::FitGroup& group : planner::fit_groups()) {
        if (!match.empty() && group.name.find(match) == std::string::npos)
          continue;
        const auto report = planner::fit_group(group, cases, left_out, evaluations, profile);
        fmt::print("{}: {} rows, loss {:.4f} -> {:.4f}\n", group.name, report.rows,
                   report.loss_before, report.loss_after);
        for (const auto& constant : group.constants) {
          fmt::print("   {} {} = {:.4g}\n", constant.entries.front(), constant.name,
                     constant.owner == planner::FitConstant::Owner::kGpu
                         ? profile.gpus[constant.entries.front()].constants[constant.name]
                         : profile.frameworks[constant.entries.front()][constant.name]);
        }
      }
      tools::write_fitted(profile_path, write, profile);
    }
    std::vector<planner::ValidatedRow> out;
    for (const auto& one : cases)
      out.push_back(planner::validate_case(one, profile));
    if (!only.empty()) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (out[i].source != only)
          continue;
        const auto& plan = cases[i].found.plan;
        if (!out[i].skipped.empty()) {
          fmt::print("{} SKIP {}\n", out[i].id, out[i].skipped);
          continue;
        }
        planner::Job job = cases[i].found.job;
        job.profile = profile;
        planner::TimeEstimate e;
        planner::TimeModel(job).estimate(plan, e);
        const auto& t = e.exposed;
        const double m = out[i].measured_seconds.value_or(0);
        fmt::print(
            "{} {} {} g{} t{} p{} v{} c{} e{} d{}x{} mb{} m{} {}{} | meas {:.4g} pred {:.4g} err "
            "{:+.1f}% | comp {:.3g} tp {:.3g} cp {:.3g} "
            "ep {:.3g} bub {:.3g} p2p {:.3g} dp {:.3g} opt {:.3g} oth {:.3g} {}\n",
            out[i].id.substr(out[i].id.size() - 4), cases[i].row.model.substr(0, 14),
            cases[i].row.gpu.substr(0, 9), job.cluster.gpus, plan.tensor, plan.pipeline,
            plan.virtual_pipeline, plan.context, plan.expert, plan.sharded, plan.replicas,
            plan.micro_batch, plan.micro_batches, planner::to_string(plan.recompute),
            plan.sequence_parallel ? " sp" : "", m, e.step_seconds,
            m > 0 ? (e.step_seconds / m - 1) * 100 : 0, t.compute, t.tensor_parallel,
            t.context_parallel, t.expert_parallel, t.pipeline_bubble, t.pipeline_p2p,
            t.data_parallel, t.optimizer, t.other,
            planner::is_gated_row(cases[i]) ? "" : "(not gated)");
      }
    }
    for (const auto& errors : planner::source_errors(cases, out, planner::is_gated_row)) {
      fmt::print(
          "{:26} rows {:4} skipped {:3} gated {:4} mae {:6.2f}% mean {:+6.2f}% worst {:+7.2f}%\n",
          errors.source, errors.rows, errors.skipped, errors.compared, errors.mean_absolute * 100,
          errors.mean * 100, errors.worst * 100);
    }
    fmt::print("--- not gated\n");
    for (const auto& errors :
         planner::source_errors(cases, out, [](const planner::ValidationCase& one) {
           return !planner::is_gated_row(one) && one.measured_seconds.has_value();
         })) {
      if (errors.compared == 0)
        continue;
      fmt::print("{:26} n {:4} mae {:6.2f}% mean {:+6.2f}% worst {:+7.2f}%\n", errors.source,
                 errors.compared, errors.mean_absolute * 100, errors.mean * 100,
                 errors.worst * 100);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
