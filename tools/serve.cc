// `trireme serve`: the planner behind sliders, on a page for this machine only.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "core/parallel.h"
#include "tools/commands.h"
#include "tools/loopback_server.h"
#include "tools/options.h"
#include "tools/request.h"
#include "tools/sample_options.h"
#include "tools/served_page.h"

namespace trireme::tools {
namespace {

struct ServeArguments {
  JobOptions job;
  LayoutOptions layout;
  std::optional<std::int64_t> port, threads;
};

int run(const ServeArguments& options, Console& console) {
  planner::Job job = make_job(options.job);
  if (job.global_batch == 0) {
    job.global_batch = job.cluster.gpus;
  }
  ServedPage page(job, options.layout,
                  static_cast<int>(options.threads.value_or(usable_threads())));
  serve_loopback(
      static_cast<std::uint16_t>(options.port.value_or(0)), {},
      [&](const std::string& path, const std::string& query) { return page.reply(path, query); },
      [&](std::uint16_t port) {
        fmt::print(console.out, "http://127.0.0.1:{}/ until Ctrl-C\n", port);
        std::fflush(console.out);
      });
  return kDone;
}

}  // namespace

void add_serve_command(Command& app, Program& program) {
  auto options = std::make_shared<ServeArguments>();
  Command* command = add_command(
      app, program, "serve", "a page with sliders, answered by the planner; for this machine only",
      "trireme serve --model llama-3.1-8b --cluster dgx-h100x2 --global-batch 256 --port 8017");
  add_job_options(*command, options->job);
  add_sample_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_count_option(*command, "--port", options->port, "of 127.0.0.1 (default: a free one)", 0,
                   65535);
  add_count_option(*command, "--threads", options->threads, "threads (default: all cores)", 1,
                   1024);
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
