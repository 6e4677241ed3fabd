// From options to what the planner reads: the job, and the plan whose missing degrees follow from
// the others (as --help says of each).
#pragma once

#include <cstdint>
#include <optional>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "tools/options.h"

namespace trireme::tools {

// Loads the model, the cluster, the profile and the framework with its settings. A global batch
// that was not given stays 0. Throws Error.
planner::Job make_job(const JobOptions& options);
// As make_job, but without a cluster (`run` on the machine it is on): the caller fills
// Job::cluster.
planner::Job make_job_without_cluster(const JobOptions& options);

// The plan that the options describe on `gpus` GPUs, or on as many as its degrees need when empty.
// A degree that was not given follows from the others and the GPU count when it can, else it is 1.
// Options change `base`, a plan file's. Throws Error when the degrees do not make up the GPUs.
planner::Plan make_plan(const LayoutOptions& options, std::optional<std::int64_t> gpus,
                        const planner::Plan& base = {});

// Throws Error where a plan recomputes by name what the model's layers do not have.
void refuse_absent_modules(const models::Transformer& model, const planner::Plan& plan);

// Fills the batch: job.global_batch when it was not given, plan.micro_batches, and what the
// framework's settings say of the plan. Throws Error when the plan breaks a rule.
void complete(planner::Job& job, planner::Plan& plan);

// A job and one of its plans, from options or from a plan file that they override.
struct Request {
  planner::Job job;
  planner::Plan plan;
  JobOptions options;  // as given and as the plan file says
};
Request make_request(const std::string& plan_file, const JobOptions& job,
                     const LayoutOptions& layout);

}  // namespace trireme::tools
