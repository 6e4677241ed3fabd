// What is to be planned: model, cluster, batch, precision, and whose behaviour is modelled.
#pragma once

#include <cstdint>

#include "models/transformer.h"
#include "models/work.h"
#include "planner/plan/framework.h"
#include "planner/plan/offload.h"
#include "planner/plan/training.h"
#include "topologies/cluster.h"
#include "topologies/profile.h"

namespace trireme::planner {

enum class Optimizer { kAdam, kAdam8bit, kSgd };

struct Job {
  models::Transformer model;
  topologies::Cluster cluster;
  Framework framework;
  topologies::Profile profile;
  std::int64_t sequence = 4096;
  std::int64_t global_batch = 0;  // sequences
  topologies::Precision precision = topologies::Precision::kBf16;
  Optimizer optimizer = Optimizer::kAdam;
  models::AttentionKernel attention = models::AttentionKernel::kFlash;
  Training training;  // what of the model is trained, on which samples
  Offload offload;    // what lives outside the GPU's memory
};

}  // namespace trireme::planner
