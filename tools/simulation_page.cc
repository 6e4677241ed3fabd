#include "tools/simulation_page.h"

#include <fmt/format.h>

#include <iterator>

#include "tools/page.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/timeline.h"

namespace trireme::tools {
namespace {

const char* fill_of(Paint paint) {
  switch (paint) {
    case Paint::kIdle:
      return "#eeeeee";
    case Paint::kForward:
      return "#4477aa";
    case Paint::kBackward:
      return "#228833";
    case Paint::kWeightGradient:
      return "#66ccee";
    case Paint::kRecompute:
      return "#aa3377";
    case Paint::kOptimizer:
      return "#ccbb44";
    case Paint::kExchange:
      return "#ee6677";
  }
  return "";
}

class StepPage {
 public:
  StepPage(const planner::Job& job, const SimulatedStep& step) : job_(job), step_(step) {}

  std::string text() {
    append(
        "<!doctype html>\n<html lang=\"en\"><head><meta "
        "charset=\"utf-8\"><title>{0}</title>\n<style>\n"
        "body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; color: "
        "#222; }}\n"
        "table {{ border-collapse: collapse; margin: 1em 0; }}\n"
        "th, td {{ padding: 0.2em 1em 0.2em 0; text-align: right; border-bottom: 1px solid #ddd; "
        "}}\n"
        "th:first-child, td:first-child {{ text-align: left; }}\n"
        "svg {{ width: 100%; }}\n.key span {{ padding: 0 0.7em; margin-right: 0.6em; color: #fff; "
        "}}\n"
        "</style></head><body>\n<h1>{0}</h1>\n<p>{1}</p>\n<p>Layout {2}; {3}.</p>\n",
        html_text(job_.model.name + " on " + job_.cluster.name), html_text(job_text(job_)),
        html_text(planner::short_form(step_.estimate.plan)),
        html_text(verdict(step_.estimate.memory)));
    append("<p>Step {}, {} tokens/s, MFU {:.1f} %. {} events in {}.</p>\n",
           duration_text(step_.step_seconds), grouped(step_.estimate.throughput.tokens_per_second),
           100 * step_.estimate.throughput.mfu,
           grouped(static_cast<double>(step_.simulation.events)),
           duration_text(step_.wall_seconds));
    draw();
    add_times();
    add_ranks();
    add_links();
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  template <typename... Arguments>
  void append(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }

  void draw() {
    constexpr std::size_t kColumns = 1200;
    constexpr int kHeight = 18;
    const auto rows = timeline(step_.program, step_.simulation.trace, kColumns, 64);
    append("<h2>The step</h2>\n<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\">\n",
           kColumns, rows.size() * kHeight);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::vector<Paint>& cells = rows[r].cells;
      append("<g><title>stage {}, rank {}</title>\n", index_of(rows[r].role),
             index_of(rows[r].rank));
      for (std::size_t begin = 0; begin < cells.size();) {
        std::size_t end = begin;
        while (end < cells.size() && cells[end] == cells[begin]) {
          ++end;
        }
        append("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", begin,
               r * kHeight, end - begin, kHeight - 2, fill_of(cells[begin]));
        begin = end;
      }
      out_ += "</g>\n";
    }
    out_ += "</svg>\n<p class=\"key\">";
    const std::pair<Paint, const char*> names[] = {{Paint::kForward, "forward"},
                                                   {Paint::kBackward, "backward"},
                                                   {Paint::kWeightGradient, "weight gradient"},
                                                   {Paint::kRecompute, "recompute"},
                                                   {Paint::kOptimizer, "optimizer"},
                                                   {Paint::kExchange, "communication alone"}};
    for (const auto& [paint, name] : names) {
      append("<span style=\"background: {}\">{}</span>", fill_of(paint), name);
    }
    out_ += "white: idle</p>\n";
  }

  void add_times() {
    const planner::TimeItems& items = step_.estimate.time.exposed;
    const std::pair<const char*, double> rows[] = {
        {"compute", items.compute},
        {"tensor parallel", items.tensor_parallel},
        {"context parallel", items.context_parallel},
        {"expert parallel", items.expert_parallel},
        {"pipeline bubble", items.pipeline_bubble},
        {"pipeline messages", items.pipeline_p2p},
        {"data parallel", items.data_parallel},
        {"optimizer", items.optimizer},
        {"other", items.other},
    };
    out_ +=
        "<h2>Exposed time, mean over the "
        "ranks</h2>\n<table><tr><th></th><th>time</th><th>share</th></tr>\n";
    for (const auto& [name, seconds] : rows) {
      if (seconds > 0) {
        append("<tr><td>{}</td><td>{}</td><td>{:.1f} %</td></tr>\n", name, duration_text(seconds),
               100 * seconds / step_.step_seconds);
      }
    }
    out_ += "</table>\n";
  }

  void add_ranks() {
    out_ +=
        "<h2>Ranks</h2>\n<table><tr><th>rank</th><th>stage</th><th>ranks alike</th><th>busy</th>"
        "<th>exposed communication</th></tr>\n";
    for (const sim::ActorReport& actor : step_.simulation.actors) {
      append("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td></tr>\n",
             index_of(actor.rank), index_of(actor.role), actor.ranks,
             100 * to_seconds(actor.busy).value / step_.step_seconds,
             duration_text(to_seconds(actor.exposed_communication).value));
    }
    out_ += "</table>\n";
  }

  void add_links() {
    out_ +=
        "<h2>Busiest "
        "links</h2>\n<table><tr><th>link</th><th>alike</th><th>GB/s</th><th>used</th></tr>\n";
    for (const sim::LinkReport& link : busiest_links(step_.simulation, 24)) {
      append("<tr><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.1f} %</td></tr>\n",
             html_text(link.name), link.links, link.capacity.value / 1e9, 100 * link.utilisation);
    }
    out_ += "</table>\n";
  }

  const planner::Job& job_;
  const SimulatedStep& step_;
  std::string out_;
};

}  // namespace

std::string simulation_page(const planner::Job& job, const SimulatedStep& step) {
  return StepPage(job, step).text();
}

}  // namespace trireme::tools
