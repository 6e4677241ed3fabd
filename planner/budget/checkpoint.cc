#include "planner/budget/checkpoint.h"

#include <algorithm>

#include "topologies/node_groups.h"
#include "topologies/node_parts.h"

namespace trireme::planner {

namespace {

// A barrier, the metadata, and the first touch of the host's buffers.
constexpr double kBarrierSeconds = 1.0;

double bytes_of_parameter(const Job& job) {
  const double moments = job.optimizer == Optimizer::kAdam       ? job.framework.moment_bytes
                         : job.optimizer == Optimizer::kAdam8bit ? 2
                                                                 : job.framework.sgd_moment_bytes;
  const double master = job.framework.master_bytes > 0 ? job.framework.master_bytes : 0;
  return job.framework.parameter_bytes + master + moments;
}

double trained_parameters(const Job& job) {
  const auto all = static_cast<double>(models::parameter_count(job.model));
  if (!job.training.has_adapters()) {
    return all;
  }
  if (job.training.trained > 0) {
    return job.training.trained;
  }
  // Rank r beside every linear layer of h x h has 2 r h elements where the layer has h^2.
  const auto hidden = static_cast<double>(job.model.hidden);
  return all * 2 * static_cast<double>(job.training.rank) / hidden;
}

}  // namespace

Checkpoint checkpoint_of(const Job& job, const Plan& plan, const Storage& storage) {
  const double gigabyte = 1e9;
  const topologies::Cluster& cluster = job.cluster;
  const double nodes = topologies::has_unlike_nodes(cluster)
                           ? static_cast<double>(cluster.nodes)
                           : std::max(1.0, static_cast<double>(plan.gpus()) /
                                               static_cast<double>(cluster.node.gpus));
  const double write = storage.write_gbytes_per_second > 0
                           ? storage.write_gbytes_per_second * gigabyte
                           : nodes * kNodeGbytes * gigabyte;
  const double read =
      storage.read_gbytes_per_second > 0 ? storage.read_gbytes_per_second * gigabyte : write;
  Checkpoint checkpoint;
  checkpoint.bytes = bytes_of_parameter(job) * trained_parameters(job);
  const double written = checkpoint.bytes / write;
  const double link = std::max(1e9, topologies::pcie_carries(job.cluster.node.pcie_per_gpu).value);
  const double copied = checkpoint.bytes / static_cast<double>(plan.gpus()) / link;
  checkpoint.save_seconds = (storage.asynchronous ? copied : written) + kBarrierSeconds;
  checkpoint.durable_seconds = std::max(checkpoint.save_seconds, copied + written);
  checkpoint.load_seconds = checkpoint.bytes / read;
  return checkpoint;
}

}  // namespace trireme::planner
