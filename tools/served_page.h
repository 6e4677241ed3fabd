// What `serve` shows: a page with sliders, and the planner's answer to each of their places.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "tools/loopback_server.h"
#include "tools/options.h"

namespace trireme::tools {

// One thing that can be moved: its values from left to right, and where it stands at first.
struct Slider {
  std::string name, label;
  std::vector<std::string> values;
  std::size_t at = 0;
};

class ServedPage {
 public:
  // `job` with a cluster and a batch; layout options narrow what is planned.
  ServedPage(planner::Job job, LayoutOptions layout, int threads);
  // "/", "/serve.js" and "/answer?seq=4096&batch=…"; a slider that is not named stands as at first.
  // Throws Error on a value that is none.
  HttpReply reply(const std::string& path, const std::string& query);

 private:
  [[nodiscard]] std::string page() const;
  [[nodiscard]] std::string answer(const std::map<std::string, std::string>& places) const;

  planner::Job job_;
  LayoutOptions layout_;
  int threads_;
  std::vector<Slider> sliders_;
  std::map<std::string, std::string> answers_;  // of places that were asked for; bounded
};

}  // namespace trireme::tools
