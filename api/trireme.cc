#include "trireme/trireme.h"

#include <nlohmann/json.hpp>

#include "api/arguments.h"
#include "api/ask.h"
#include "api/read_results.h"

namespace trireme::api {

std::string version() {
  return TRIREME_VERSION;
}

std::vector<Model> models() {
  std::vector<Model> all;
  const auto answer = json_of({"models"}, {});
  for (const auto& json : answer.at("models")) {
    all.push_back(read_model(json));
  }
  return all;
}

Model model(const std::string& name_or_file) {
  return read_model(json_of({"models"}, {"--model=" + name_or_file}));
}

std::vector<Cluster> clusters() {
  std::vector<Cluster> all;
  const auto answer = json_of({"clusters"}, {});
  for (const auto& json : answer.at("clusters")) {
    all.push_back(read_cluster(json));
  }
  return all;
}

Estimate estimate(const Job& job, const Layout& layout) {
  Words words;
  add(words, job);
  add(words, layout);
  return read_estimate(json_of({"estimate"}, words));
}

Simulation simulate(const Job& job, const Layout& layout, const SimulateOptions& options) {
  Words words;
  add(words, job);
  add(words, layout);
  add_each(words, "--straggler", options.straggler);
  add_each(words, "--slow-link", options.slow_link);
  add(words, "--jitter", options.jitter);
  add(words, "--rank-spread", options.rank_spread);
  add(words, "--seed", options.seed);
  add_flag(words, "--no-contention", options.no_contention);
  return read_simulation(json_of({"simulate"}, words));
}

Plan plan(const Job& job, const PlanOptions& options) {
  Words words;
  add(words, job);
  add(words, options.layout);
  add(words, "--objective", options.objective);
  add_each(words, "--constraint", options.constraint);
  add(words, "--price", options.price);
  add(words, "--top", options.top);
  add(words, "--refine", options.refine);
  add(words, "--threads", options.threads);
  add_flag(words, "--keep-switches", options.keep_switches);
  return read_plan(json_of({"plan"}, words));
}

WhatIf whatif(const Job& job, const WhatIfOptions& options) {
  Words words;
  add(words, job);
  add(words, options.layout);
  add_each(words, "--vary", options.vary);
  add_each(words, "--straggler", options.straggler);
  add_each(words, "--slow-link", options.slow_link);
  add_flag(words, "--keep-layout", options.keep_layout);
  add_flag(words, "--simulate", options.simulate);
  add(words, "--threads", options.threads);
  return read_whatif(json_of({"whatif"}, words));
}

Check check(const std::string& file, const Job& job, const CheckOptions& options) {
  Words words = {file};
  words.insert(words.end(), options.words.begin(), options.words.end());
  add(words, "--format", options.format);
  add(words, job);
  return read_check(json_of({"check"}, words));
}

Calibration calibrate(const Job& job, const CalibrateOptions& options) {
  Words words;
  add(words, "--output", options.output);
  add_each(words, "--fit", options.fit);
  add(words, "--from-points", options.from_points);
  add_each(words, "--from-run", options.from_run);
  add_flag(words, "--quick", options.quick);
  add(words, job);
  add(words, options.layout);
  return read_calibration(json_of({"calibrate"}, words));
}

}  // namespace trireme::api
