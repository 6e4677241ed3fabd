#include "tools/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "models/presets.h"
#include "topologies/cluster.h"

namespace trireme::tools {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::string rest = text + at;
  for (auto cut = rest.find(at); cut != std::string::npos; cut = rest.find(at)) {
    parts.push_back(rest.substr(0, cut));
    rest.erase(0, cut + 1);
  }
  return parts;
}

std::vector<std::string> values_of(const std::string& type) {
  if (type == "M") {
    return models::preset_names();
  }
  if (type == "C") {
    std::vector<std::string> names = topologies::cluster_preset_names();
    std::for_each(names.begin(), names.end(), [](std::string& name) { name += "x1"; });
    return names;
  }
  const bool choices =
      type.find('|') != std::string::npos &&
      std::none_of(type.begin(), type.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return choices ? split(type, '|') : std::vector<std::string>{};
}

// Options that CLI11 calls TEXT say no more than that.
bool takes_file(const std::string& type, bool positional) {
  constexpr std::string_view kFiles[] = {"FILE", "PLAN", "M", "C", "DIR", "FOLDER"};
  return std::find(std::begin(kFiles), std::end(kFiles), type) != std::end(kFiles) ||
         type.find("TEXT") == 0 || positional;
}

CommandOption read(const CLI::Option& option) {
  CommandOption read;
  for (const std::string& name : option.get_lnames()) {
    read.names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    read.names.push_back("-" + name);
  }
  const bool flag = option.get_type_size() == 0;
  read.type = flag ? "" : option.get_type_name();
  if (option.get_positional() && !flag && (read.type.empty() || read.type == "TEXT")) {
    read.type = option.get_name(true, false);
  }
  read.description = option.get_description();
  read.values = flag ? std::vector<std::string>{} : values_of(read.type);
  read.takes_file = !flag && takes_file(read.type, option.get_positional());
  return read;
}

void add_pages(const CLI::App& app, std::vector<std::string> path,
               std::vector<CommandPage>& pages) {
  CommandPage page;
  page.path = path;
  page.description = app.get_description();
  page.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options({})) {
    (option->get_positional() ? page.positionals : page.options).push_back(read(*option));
  }
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : below) {
    page.commands.push_back(command->get_name());
  }
  pages.push_back(std::move(page));
  for (const CLI::App* command : below) {
    path.push_back(command->get_name());
    add_pages(*command, path, pages);
    path.pop_back();
  }
}

}  // namespace

std::vector<CommandPage> command_pages(const Command& root) {
  std::vector<CommandPage> pages;
  add_pages(*root.app(), {}, pages);
  return pages;
}

std::string page_name(const CommandPage& page, char between) {
  std::string name = "trireme";
  for (const std::string& word : page.path) {
    name += between + word;
  }
  return name;
}

}  // namespace trireme::tools
