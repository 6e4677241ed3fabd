#include "api/arguments.h"

namespace trireme::api {

void add(Words& words, const std::string& name, const std::string& value) {
  if (!value.empty()) {
    words.push_back(name + "=" + value);
  }
}

void add(Words& words, const std::string& name, const Count& value) {
  if (value) {
    words.push_back(name + "=" + std::to_string(*value));
  }
}

void add_each(Words& words, const std::string& name, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    words.push_back(name + "=" + value);
  }
}

void add_flag(Words& words, const std::string& name, bool value) {
  if (value) {
    words.push_back(name);
  }
}

void add(Words& words, const Job& job) {
  add(words, "--model", job.model);
  add(words, "--cluster", job.cluster);
  add(words, "--gpus", job.gpus);
  add(words, "--seq", job.seq);
  add(words, "--global-batch", job.global_batch);
  add(words, "--precision", job.precision);
  add(words, "--optimizer", job.optimizer);
  add(words, "--attention", job.attention);
  add(words, "--framework", job.framework);
  add_each(words, "--set", job.set);
  add(words, "--calibration", job.calibration);
  words.insert(words.end(), job.more.begin(), job.more.end());
}

void add(Words& words, const Layout& layout) {
  add(words, "--layout", layout.layout);
  add(words, "--tp", layout.tp);
  add(words, "--pp", layout.pp);
  add(words, "--vpp", layout.vpp);
  add(words, "--dp", layout.dp);
  add(words, "--fsdp", layout.fsdp);
  add(words, "--cp", layout.cp);
  add(words, "--ep", layout.ep);
  add(words, "--etp", layout.etp);
  add(words, "--data-parallel", layout.data_parallel);
  add(words, "--micro-batch", layout.micro_batch);
  add(words, "--sharding", layout.sharding);
  add(words, "--recompute", layout.recompute);
  add(words, "--recompute-layers", layout.recompute_layers);
  add(words, "--recompute-modules", layout.recompute_modules);
  add(words, "--schedule", layout.schedule);
  add(words, "--stage-layers", layout.stage_layers);
  add(words, "--fsdp-unit", layout.fsdp_unit);
  if (layout.sequence_parallel) {
    words.emplace_back(*layout.sequence_parallel ? "--sequence-parallel"
                                                 : "--no-sequence-parallel");
  }
}

}  // namespace trireme::api
