#include "tools/served_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"
#include "tools/page_parts.h"
#include "tools/plan_report.h"
#include "tools/report.h"
#include "tools/variation.h"
#include "topologies/node_groups.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kMostAnswers = 4096;

// Whole numbers that double from `low` to `high`, and the present one among them.
Slider doubling(const std::string& name, const std::string& label, std::int64_t low,
                std::int64_t high, std::int64_t present) {
  std::vector<std::int64_t> numbers = {present};
  for (std::int64_t number = low; number <= high; number *= 2) {
    numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  Slider slider{name, label, {}, 0};
  for (const std::int64_t number : numbers) {
    slider.at = number == present ? slider.values.size() : slider.at;
    slider.values.push_back(fmt::format("{}", number));
  }
  return slider;
}

// Factors of a bandwidth, a tenth to ten times.
Slider factors(const std::string& name, const std::string& label) {
  Slider slider{name, label, {}, 0};
  for (const char* factor : {"0.1x", "0.15x", "0.25x", "0.4x", "0.6x", "0.8x", "1x", "1.25x",
                             "1.6x", "2x", "3x", "4x", "6x", "10x"}) {
    slider.at = std::string(factor) == "1x" ? slider.values.size() : slider.at;
    slider.values.emplace_back(factor);
  }
  return slider;
}

std::map<std::string, std::string> places_of(const std::string& query,
                                             const std::vector<Slider>& sliders) {
  std::map<std::string, std::string> places;
  for (const Slider& slider : sliders) {
    places[slider.name] = slider.values[slider.at];
  }
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string part = query.substr(begin, end - begin);
    const std::size_t cut = part.find('=');
    const std::string name = part.substr(0, cut);
    const std::string value = cut == std::string::npos ? "" : part.substr(cut + 1);
    const auto slider = std::ranges::find(sliders, name, &Slider::name);
    if (slider == sliders.end() ||
        std::ranges::find(slider->values, value) == slider->values.end()) {
      throw Error(name.substr(0, 32), slider == sliders.end()
                                          ? std::string("there is no such slider")
                                          : fmt::format("is not on the slider; there are {}",
                                                        fmt::join(slider->values, ", ")));
    }
    places[name] = value;
    begin = end + 1;
  }
  return places;
}

void add_best(const planner::Job& job, const planner::Estimate& best, Page& page) {
  page.table({.head = {"best layout", "step", "tokens/s", "MFU", "memory"},
              .rows = {{planner::short_form(best.plan), step_text(best.time),
                        grouped(best.throughput.tokens_per_second),
                        fmt::format("{:.1f} %", 100 * best.throughput.mfu),
                        gib_text(best.memory.allocated_gib)}}});
  page.bars({.title = "Exposed time of a step, seconds", .bars = {time_bar("step", best.time)}});
  add_memory(job, best.memory, page);
}

}  // namespace

ServedPage::ServedPage(planner::Job job, LayoutOptions layout, int threads)
    : job_(std::move(job)), layout_(std::move(layout)), threads_(threads) {
  const std::int64_t node = job_.cluster.node.gpus;
  const std::int64_t gpus = job_.cluster.gpus;
  const bool alone = job_.cluster.network.kind == topologies::Network::Kind::kNone;
  // More nodes of several kinds, or of a torus, only a file can say.
  const bool all =
      topologies::has_unlike_nodes(job_.cluster) || !job_.cluster.network.torus.empty();
  const std::int64_t most = all ? gpus : alone ? node : std::max(8 * gpus, 8 * node);
  sliders_ = {doubling("seq", "tokens in a sequence", 512, 131072, job_.sequence),
              doubling("batch", "sequences in a step", 1, 65536, job_.global_batch),
              doubling("gpus", "GPUs", 1, most, gpus), factors("nic", "bandwidth of the network"),
              factors("nvlink", "bandwidth inside a node")};
}

std::string ServedPage::page() const {
  Page page(fmt::format("{} on {}", job_.model.name, job_.cluster.name));
  page.text(job_text(job_));
  std::string rows;
  for (const Slider& slider : sliders_) {
    std::string values;
    for (const std::string& value : slider.values) {
      values += (values.empty() ? "" : " ") + value;
    }
    rows += fmt::format(
        "<label for=\"{0}\">{1}</label><input type=\"range\" id=\"{0}\" min=\"0\" max=\"{2}\" "
        "value=\"{3}\" data-values=\"{4}\"><output for=\"{0}\">{5}</output>\n",
        slider.name, slider.label, slider.values.size() - 1, slider.at, values,
        slider.values[slider.at]);
  }
  page.raw("<form class=\"sliders\">" + rows + "</form>\n<p class=\"hint\" id=\"state\"></p>\n");
  page.raw("<div id=\"answer\" aria-live=\"polite\">" + answer(places_of("", sliders_)) +
           "</div>\n");
  add_provenance(job_, page);
  page.raw("<script src=\"/serve.js\"></script>\n");
  return page.html();
}

std::string ServedPage::answer(const std::map<std::string, std::string>& places) const {
  planner::Job job = job_;
  job.sequence = parse_count(places.at("seq"), "seq");
  job.global_batch = parse_count(places.at("batch"), "batch");
  apply_to_machine({"gpus", places.at("gpus")}, job);
  apply_to_machine({"nic_bandwidth", places.at("nic")}, job);
  apply_to_machine({"nvlink_bandwidth", places.at("nvlink")}, job);
  planner::SearchOptions search;
  fix_layout(layout_, search);
  search.best_only = true;
  search.threads = threads_;
  const planner::SearchResult result = planner::search(job, search);
  Page page("");
  if (result.best) {
    add_best(job, *result.best, page);
  } else if (!result.nearest_misses.empty()) {
    page.text("Nothing fits. The nearest, " +
              planner::short_form(result.nearest_misses.front().plan) + ": " +
              planner::memory_detail(result.nearest_misses.front().memory));
  } else {
    page.text("No layout is legal: " + (result.rejected.empty() ? std::string("none exists")
                                                                : result.rejected.front().detail));
  }
  return page.body();
}

HttpReply ServedPage::reply(const std::string& path, const std::string& query) {
  if (path == "/") {
    return {200, "text/html; charset=utf-8", page()};
  }
  if (path == "/serve.js") {
    return {200, "text/javascript; charset=utf-8", std::string(page_file("serve"))};
  }
  if (path != "/answer") {
    return {404, "text/plain; charset=utf-8", "there are /, /serve.js and /answer\n"};
  }
  const std::map<std::string, std::string> places = places_of(query, sliders_);
  std::string key;
  for (const auto& [name, value] : places) {
    key += value + " ";
  }
  const auto known = answers_.find(key);
  if (known != answers_.end()) {
    return {200, "text/html; charset=utf-8", known->second};
  }
  if (answers_.size() >= kMostAnswers) {
    answers_.clear();
  }
  return {200, "text/html; charset=utf-8", answers_[key] = answer(places)};
}

}  // namespace trireme::tools
