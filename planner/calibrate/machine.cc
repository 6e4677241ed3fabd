#include "planner/calibrate/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/microbenchmarks_json.h"
#include "planner/cost/behaviour_fit.h"
#include "topologies/corrections.h"
#include "topologies/gpu_fit.h"
#include "topologies/nccl_graph.h"
#include "topologies/topology_file.h"

namespace trireme::planner {
namespace {

using Kind = QuantitySource::Kind;
using topologies::Precision;

// "H200-SXM-141GB" of "NVIDIA H200"; the name itself when it is no known card.
std::string preset_name(const std::string& gpu) {
  try {
    return topologies::find_gpu(gpu, "profile").name;
  } catch (const std::exception&) {
    return gpu;
  }
}

// Products of the job's precision, and under 8 and 4 bits those that stay in bf16. Where the card's
// fit was measured and a precision was not, its rate is the datasheet's times a shipped efficiency.
void add_products(const Job& job, const topologies::GpuFit& fit, Kind own,
                  ProfileSources& sources) {
  const bool narrow = job.precision == Precision::kFp8 || job.precision == Precision::kFp4;
  const auto add = [&](const std::string& quantity, Precision precision) {
    const auto table = topologies::matmul_table(fit, precision);
    std::string text = fit.source;
    Kind kind = own;
    if (table) {
      const bool lent = topologies::precision_of(*table) != precision;
      text += lent ? fmt::format("; measured table of {}", to_string(*table)) : "; measured table";
    } else if (own == Kind::kMeasured || !fit.matmuls.empty()) {
      text = fmt::format("no product in {} was measured; datasheet rate times a fitted efficiency",
                         topologies::precision_name(precision));
      kind = Kind::kFitted;
    } else {
      text += "; datasheet rate times a fitted efficiency";
    }
    sources.quantities.push_back({quantity, text, kind});
  };
  if (!narrow) {
    add("matrix products", job.precision);
    return;
  }
  add(fmt::format("matrix products in {}", topologies::precision_name(job.precision)),
      job.precision);
  add("matrix products kept in bf16", Precision::kBf16);
}

void add_device(const Job& job, ProfileSources& sources) {
  const topologies::GpuFit fit = topologies::fit_for(job.cluster.gpu, job.profile);
  const Kind own = fit.measured                            ? Kind::kMeasured
                   : fit.source.starts_with("transferred") ? Kind::kTransferred
                                                           : Kind::kFitted;
  const auto add = [&](const char* quantity, bool table) {
    std::string text = fit.source;
    text += table ? "; measured table" : "; datasheet rate times a fitted efficiency";
    sources.quantities.push_back({quantity, text, own});
  };
  add_products(job, fit, own, sources);
  add("attention", !fit.attention.empty());
  add("memory-bound kernels", false);
  if (job.framework.implementation == models::Implementation::kTrireme && !fit.kernels.empty()) {
    sources.quantities.push_back(
        {"own kernels",
         fmt::format("{}; fixed cost and rate of {} kernels", fit.source, fit.kernels.size()),
         own});
  }
}

void add_collectives(const Job& job, ProfileSources& sources) {
  const topologies::Cluster& cluster = job.cluster;
  const auto add = [&](const char* quantity, const std::string& key, bool nodes) {
    const auto tables = std::ranges::count_if(
        job.profile.collectives, [&](const topologies::CollectiveTable& table) {
          return table.gpu == cluster.gpu.name &&
                 table.network == (nodes ? cluster.network.name : "");
        });
    const bool corrected = job.profile.networks.contains(key);
    if (tables > 0) {
      sources.quantities.push_back(
          {quantity, fmt::format("{} tables of the profile; other groups by NCCL's model", tables),
           Kind::kMeasured});
    } else if (corrected) {
      const bool same = !sources.transferred;
      sources.quantities.push_back({quantity,
                                    "NCCL's model with the profile's corrections of " + key,
                                    same ? Kind::kMeasured : Kind::kTransferred});
    } else {
      sources.quantities.push_back(
          {quantity, "datasheet links, NCCL's model with the shipped corrections of " + key,
           Kind::kDatasheet});
    }
  };
  if (cluster.node.gpus > 1) {
    const auto group = topologies::group_shape(
        cluster, std::min<std::int64_t>(cluster.node.gpus, cluster.gpus), 1);
    if (group.ranks > 1) {
      const auto graph = topologies::nccl_graph(cluster, group);
      add("collectives in the node", std::string(topologies::fabric_key(graph, cluster.gpu)),
          false);
    }
  }
  if (cluster.nodes > 1 && cluster.gpus > cluster.node.gpus) {
    add("collectives between nodes", cluster.network.name, true);
  }
}

}  // namespace

topologies::Cluster cluster_of_machine(const MachineFingerprint& machine) {
  const topologies::Gpu& gpu =
      topologies::find_gpu(machine.gpu, "machine (name it with --cluster)");
  // The maker's own node first, then the clouds'.
  for (const bool own : {true, false}) {
    for (const std::string& name : topologies::cluster_preset_names()) {
      if (own && !name.starts_with("dgx") && !name.starts_with("hgx")) {
        continue;
      }
      topologies::Cluster cluster = topologies::load_cluster(name + "x1");
      if (cluster.gpu.name == gpu.name) {
        const std::int64_t gpus = std::clamp<std::int64_t>(machine.gpus, 1, cluster.gpus);
        return topologies::narrowed(std::move(cluster), gpus);
      }
    }
  }
  throw Error("machine", fmt::format("no cluster preset has a {}; describe the node in a topology "
                                     "file and give it as --cluster",
                                     gpu.name));
}

std::vector<std::string> differing_fields(const topologies::Profile& profile,
                                          const topologies::Cluster& cluster) {
  std::vector<std::string> fields;
  if (!profile.machine) {
    return fields;
  }
  const MachineFingerprint& machine = *profile.machine;
  const topologies::Gpu& gpu = cluster.gpu;
  if (const std::string name = preset_name(machine.gpu); name != gpu.name) {
    fields.push_back(fmt::format("gpu: {}, here {}", name, gpu.name));
  }
  if (machine.multiprocessors > 0 && gpu.multiprocessors > 0 &&
      machine.multiprocessors != gpu.multiprocessors) {
    fields.push_back(
        fmt::format("multiprocessors: {}, here {}", machine.multiprocessors, gpu.multiprocessors));
  }
  // What the driver reports is a few per cent below what is printed on the card.
  const double memory = to_gib(machine.memory);
  if (memory > 0 && std::abs(memory / to_gib(gpu.memory) - 1) > 0.05) {
    fields.push_back(
        fmt::format("memory: {:.0f} GiB, here {:.0f} GiB", memory, to_gib(gpu.memory)));
  }
  return fields;
}

ProfileSources profile_sources(const Job& job) {
  ProfileSources sources;
  sources.profile = job.profile.name;
  sources.calibrated = job.profile.name != topologies::shipped_profile().name;
  sources.differs = differing_fields(job.profile, job.cluster);
  sources.transferred =
      job.profile.machine && preset_name(job.profile.machine->gpu) != job.cluster.gpu.name;
  add_device(job, sources);
  add_collectives(job, sources);
  const auto& shipped = job.profile.shipped_parts;
  const std::string framework = behaviour_name(job.framework);
  const bool fitted = sources.calibrated &&
                      std::ranges::find(shipped, "framework " + framework) == shipped.end() &&
                      job.profile.frameworks.contains(framework);
  sources.quantities.push_back({"framework " + full_name(job.framework),
                                fitted ? "the profile" : "shipped, fitted on published runs",
                                fitted ? Kind::kMeasured : Kind::kFitted});
  for (const auto& [category, correction] : job.profile.corrections) {
    sources.quantities.push_back(
        {"correction of " + category,
         fmt::format("x{:.3f} from {} measured runs", correction.factor, correction.runs),
         Kind::kMeasured});
  }
  return sources;
}

std::string_view to_string(QuantitySource::Kind kind) {
  switch (kind) {
    case Kind::kMeasured:
      return "measured";
    case Kind::kTransferred:
      return "transferred";
    case Kind::kFitted:
      return "fitted";
    case Kind::kDatasheet:
      return "datasheet";
  }
  return "";
}

}  // namespace trireme::planner
