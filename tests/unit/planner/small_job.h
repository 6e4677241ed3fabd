// A job of a model, a cluster and a framework by name: short sequences, a micro-batch a GPU.
#pragma once

#include "models/presets.h"
#include "planner/plan/job.h"
#include "topologies/profile.h"

namespace trireme::planner {

inline Job small_job(const char* model, const char* cluster, const char* framework) {
  Job job;
  job.model = models::load_model(model);
  job.cluster = topologies::load_cluster(cluster);
  job.framework = find_framework(framework);
  job.profile = topologies::shipped_profile();
  job.sequence = 2048;
  job.global_batch = job.cluster.gpus;
  return job;
}

}  // namespace trireme::planner
