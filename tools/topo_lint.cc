// `trireme topo lint`: what looks wrong in a machine, from what it printed and from nccl-tests.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "planner/calibrate/measurement_file.h"
#include "tools/machine_file.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/table.h"
#include "tools/topo_commands.h"
#include "topologies/import/import.h"
#include "topologies/import/lspci.h"
#include "topologies/lint.h"

namespace trireme::tools {
namespace {

using topologies::Finding;

struct TopoLintArguments {
  std::vector<std::string> files, logs;
  std::string cluster, calibration, operation;
  MachineOptions machine;
  std::optional<std::int64_t> gpus;
  bool json = false;
};

void add(std::vector<Finding>& all, const std::vector<Finding>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void add_doubts(const std::vector<topologies::Doubt>& doubts, const std::string& prefix,
                std::vector<Finding>& findings) {
  for (const topologies::Doubt& doubt : doubts) {
    findings.push_back(
        {Finding::Severity::kWarning, prefix + doubt.where, doubt.detail, doubt.fix});
  }
}

// One file of a host: false where it is lspci's list, which is no machine by itself.
bool read_host(const std::string& file, const TopoLintArguments& options,
               std::vector<topologies::Cluster>& hosts, std::vector<Finding>& findings) {
  const std::string prefix = options.files.size() > 1 ? file + ": " : "";
  const std::string text = read_machine_text(file);
  if (topologies::is_lspci(text)) {
    add_doubts(topologies::lspci_doubts(text), prefix, findings);
    return false;
  }
  const topologies::Imported imported = import_machine(text, file, options.machine);
  hosts.push_back(imported.cluster);
  for (Finding finding : topologies::lint_node(imported.cluster)) {
    finding.where = prefix + finding.where;
    findings.push_back(std::move(finding));
  }
  add_doubts(imported.doubts, prefix, findings);
  for (const std::string& remark : imported.remarks) {
    findings.push_back({Finding::Severity::kInfo, file, remark, ""});
  }
  return true;
}

// The machine that the logs were measured on: `--cluster`, or the first file.
topologies::Cluster read_hosts(const TopoLintArguments& options, std::vector<Finding>& findings) {
  std::vector<topologies::Cluster> hosts;
  std::vector<std::string> names;
  for (const std::string& file : options.files) {
    if (read_host(file, options, hosts, findings)) {
      names.push_back(file);
    }
  }
  add(findings, topologies::lint_hosts(hosts, names));
  if (!options.cluster.empty()) {
    topologies::Cluster named = topologies::load_cluster(options.cluster);
    if (options.files.empty()) {
      add(findings, topologies::lint_node(named));
    }
    return named;
  }
  if (hosts.empty() && (options.files.empty() || !options.logs.empty())) {
    throw Error("topo lint", "needs a FILE that a machine printed, or --cluster");
  }
  if (hosts.empty()) {  // lspci alone
    topologies::Cluster listed;
    listed.name = options.files.front();
    return listed;
  }
  return hosts.front();
}

void read_logs(const TopoLintArguments& options, const topologies::Cluster& cluster,
               std::vector<Finding>& findings) {
  const topologies::Profile profile = options.calibration.empty()
                                          ? topologies::shipped_profile()
                                          : topologies::load_profile(options.calibration);
  planner::MeasurementHints hints;
  hints.cluster = cluster;
  hints.operation = options.operation;
  hints.ranks = options.gpus;
  for (const std::string& log : options.logs) {
    const planner::MeasurementFile file = planner::read_measurements(log, hints, planner::kLogMost);
    for (const planner::CollectiveMeasurement& one : file.collectives) {
      const auto largest =
          std::ranges::max_element(one.points, {}, [](const auto& point) { return point.bytes; });
      add(findings, topologies::lint_measured({one.cluster, one.group, one.collective, log,
                                               largest->bytes, largest->seconds},
                                              profile));
    }
  }
}

int run(const TopoLintArguments& options, Console& console) {
  std::vector<Finding> findings;
  const topologies::Cluster cluster = read_hosts(options, findings);
  read_logs(options, cluster, findings);
  std::ranges::stable_sort(findings, {}, [](const Finding& f) { return f.severity; });
  const bool clean = std::ranges::none_of(
      findings, [](const Finding& f) { return f.severity != Finding::Severity::kInfo; });
  if (options.json) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"severity", topologies::severity_name(finding.severity)},
                      {"where", finding.where},
                      {"detail", finding.detail},
                      {"fix", finding.fix}});
    }
    print_json(console, "lint", {{"cluster", cluster.name}, {"findings", list}});
    return clean ? kDone : kAnswerIsNo;
  }
  for (const Finding& finding : findings) {
    fmt::print(console.out, "{:<8} {}: {}\n", topologies::severity_name(finding.severity),
               finding.where, finding.detail);
    if (!finding.fix.empty()) {
      fmt::print(console.out, "         {}\n", finding.fix);
    }
  }
  if (clean) {
    fmt::print(console.out, "nothing looks wrong in {}\n", cluster.name);
  }
  return clean ? kDone : kAnswerIsNo;
}

}  // namespace

void add_topo_lint_command(Command& topo, Program& program) {
  auto options = std::make_shared<TopoLintArguments>();
  Command* command = add_command(
      topo, program, "lint",
      "names what looks wrong in a machine, from what its tools print and nccl-tests logs",
      "trireme topo lint host1.txt host2.txt --gpu H100 --log all_reduce.log");
  command->add_option("FILE", options->files,
                      "what the hosts printed, as topo import reads it; also lspci -vvv");
  command
      ->add_option("--cluster", options->cluster,
                   "the machine that the logs were measured on; else the first FILE's")
      ->type_name("C");
  command->add_option("--log", options->logs, "nccl-tests logs (repeatable)")->type_name("FILE");
  command->add_option("--op", options->operation, "of a log that does not name its tool");
  add_count_option(*command, "--gpus", options->gpus, "of a log without a banner of ranks");
  command
      ->add_option("--calibration", options->calibration, "a profile written by trireme calibrate")
      ->type_name("FILE");
  add_machine_options(*command, options->machine);
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
