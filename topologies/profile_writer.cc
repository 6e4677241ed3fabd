#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/json_reader.h"
#include "core/json_text.h"
#include "core/microbenchmarks_json.h"
#include "topologies/profile.h"

namespace trireme::topologies {
namespace {

using Json = nlohmann::ordered_json;

Json gpu_json(const GpuFit& fit) {
  Json json = {{"source", fit.source},
               {"measured", fit.measured},
               {"compute_capability", fit.compute_capability},
               {"constants", fit.constants}};
  for (const MatmulPoint& point : fit.matmuls) {
    Json row = {point.m, point.n, point.k, point.rate.value / 1e12};
    const bool is_bf16 = point.precision == MatmulPrecision::kBf16;
    if (!point.layout.empty() || !is_bf16) {
      row.push_back(point.layout);
    }
    if (!is_bf16) {
      row.push_back(to_string(point.precision));
    }
    json["matmuls"].push_back(row);
  }
  for (const GroupedPoint& point : fit.grouped) {
    json["grouped"].push_back({{"experts", point.experts},
                               {"m", point.m},
                               {"n", point.n},
                               {"k", point.k},
                               {"layout", to_string(point.layout)},
                               {"adds", point.adds},
                               {"tflops", point.rate.value / 1e12}});
  }
  for (const AttentionPoint& point : fit.attention) {
    json["attention"].push_back({{"batch", point.batch},
                                 {"heads", point.heads},
                                 {"kv_heads", point.kv_heads},
                                 {"sequence", point.sequence},
                                 {"head_size", point.head_size},
                                 {"forward_seconds", point.forward.value},
                                 {"backward_seconds", point.backward.value},
                                 {"portable", point.portable}});
  }
  for (const auto& [name, kernel] : fit.kernels) {
    json["kernels"][name] = {{"fixed_seconds", kernel.fixed.value},
                             {"gbytes_per_second", kernel.rate.value / 1e9}};
  }
  return json;
}

Json collective_json(const CollectiveTable& table) {
  Json json = {{"operation", table.operation},
               {"gpu", table.gpu},
               {"network", table.network},
               {"ranks", table.ranks},
               {"ranks_per_node", table.ranks_per_node},
               {"source", table.source},
               {"residual", table.residual},
               {"regimes", Json::array()},
               {"points", Json::array()}};
  for (const CollectiveTable::Regime& regime : table.regimes) {
    json["regimes"].push_back({{"up_to_bytes", regime.up_to_bytes},
                               {"latency_seconds", regime.latency.value},
                               {"gbytes_per_second", regime.rate.value / 1e9}});
  }
  for (const CollectiveTable::Point& point : table.points) {
    json["points"].push_back({point.bytes, point.seconds});
  }
  return json;
}

void write_measured(const Profile& profile, Json& json) {
  for (const CollectiveTable& table : profile.collectives) {
    json["collectives"].push_back(collective_json(table));
  }
  for (const OverlapFit& overlap : profile.overlaps) {
    json["overlaps"].push_back({{"operation", overlap.operation},
                                {"compute_slowdown", overlap.compute_slowdown},
                                {"collective_slowdown", overlap.collective_slowdown}});
  }
  for (const auto& [category, correction] : profile.corrections) {
    json["corrections"][category] = {{"factor", correction.factor},
                                     {"runs", correction.runs},
                                     {"evidence", correction.evidence}};
  }
  if (profile.interval) {
    json["interval"] = {{"low", profile.interval->low},
                        {"high", profile.interval->high},
                        {"runs", profile.interval->runs}};
  }
  if (!profile.residuals.empty()) {
    json["residuals"] = profile.residuals;
  }
}

bool from_shipped(const Profile& profile, const std::string& part) {
  return std::ranges::find(profile.shipped_parts, part) != profile.shipped_parts.end();
}

}  // namespace

std::string profile_text(const Profile& profile) {
  Json json = {{"schema", "trireme.profile/1"}, {"name", profile.name}};
  json["units"] = {{"matmuls", "m, n, k, TFLOP/s, layout, precision (bf16 where none is said)"},
                   {"points", "bytes, seconds"},
                   {"residuals", "median relative error, measured against fitted"},
                   {"corrections", "measured over predicted time"}};
  if (profile.machine) {
    json["machine"] = fingerprint_to_json(*profile.machine);
  }
  if (!profile.topology.empty()) {
    json["topology"] = profile.topology;
  }
  json["gpus"] = Json::object();
  if (!from_shipped(profile, "gpus")) {
    for (const auto& [name, fit] : profile.gpus) {
      json["gpus"][name] = gpu_json(fit);
    }
  }
  json["networks"] = profile.networks;
  json["frameworks"] = Json::object();
  for (const auto& [name, constants] : profile.frameworks) {
    if (!from_shipped(profile, "framework " + name)) {
      json["frameworks"][name] = constants;
    }
  }
  if (!profile.intervals.empty() && !from_shipped(profile, "intervals")) {
    json["intervals"] = profile.intervals;
  }
  write_measured(profile, json);
  if (profile.points) {
    json["points"] = microbenchmarks_to_json(*profile.points);
  }
  return readable_json(json);
}

void save_profile(const Profile& profile, const std::string& path) {
  write_file_atomically(path, profile_text(profile));
}

}  // namespace trireme::topologies
