// `trireme manual`: the program's man pages and shell completions.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "tools/build_facts.h"
#include "tools/command_tree.h"
#include "tools/commands.h"
#include "tools/completions.h"
#include "tools/man_page.h"
#include "tools/options.h"

namespace trireme::tools {
namespace {

struct ManualArguments {
  std::string shell, output;
};

int run(const Command& root, const ManualArguments& options, Console& console) {
  if (options.shell.empty() == options.output.empty()) {
    throw Error("manual", "needs one of --shell bash|zsh|fish and --output FOLDER");
  }
  const std::vector<CommandPage> pages = command_pages(root);
  if (!options.shell.empty()) {
    fmt::print(console.out, "{}",
               options.shell == "bash"  ? bash_completions(pages)
               : options.shell == "zsh" ? zsh_completions(pages)
                                        : fish_completions(pages));
    return kDone;
  }
  if (!std::filesystem::is_directory(options.output)) {
    throw Error(options.output, "is no folder; make it first");
  }
  for (const CommandPage& page : pages) {
    const std::string name = page_name(page, '-') + ".1";
    write_file_atomically((std::filesystem::path(options.output) / name).string(),
                          man_page(page, version()));
  }
  return kDone;
}

}  // namespace

void add_manual_command(Command& app, Program& program) {
  auto options = std::make_shared<ManualArguments>();
  Command* command = add_command(
      app, program, "manual", "the program's man pages, or a shell's completions",
      "trireme manual --shell bash > ~/.local/share/bash-completion/completions/trireme");
  add_choice_option(*command, "--shell", options->shell, "print what this shell proposes after TAB",
                    {"bash", "zsh", "fish"});
  command
      ->add_option("-o,--output", options->output, "write a man page per command into this folder")
      ->type_name("FOLDER");
  program.on(command, [options, &app](Console& console) { return run(app, *options, console); });
}

}  // namespace trireme::tools
