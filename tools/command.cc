#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "core/error.h"

namespace trireme::tools {

Option* Option::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::default_text(const std::string& text) {
  option_->default_str(text);
  return this;
}

Option* Option::excludes(const Option* other) {
  option_->excludes(other->option_);
  return this;
}

Option* Option::repeatable() {
  option_->take_all()->expected(1)->allow_extra_args(false);
  return this;
}

Option* Command::keep(CLI::Option* option) {
  return &options_.emplace_back(*option);
}

Option* Command::add_option(const std::string& name, std::string& value,
                            const std::string& description) {
  return keep(app_->add_option(name, value, description));
}

Option* Command::add_option(const std::string& name, std::vector<std::string>& values,
                            const std::string& description) {
  return keep(app_->add_option(name, values, description));
}

Option* Command::add_option(const std::string& name, std::int64_t& value,
                            const std::string& description) {
  return keep(app_->add_option(name, value, description));
}

Option* Command::add_option_reader(const std::string& name,
                                   const std::function<void(const std::string&)>& read,
                                   const std::string& description) {
  return keep(app_->add_option_function<std::string>(name, read, description));
}

Option* Command::add_list_reader(const std::string& name,
                                 const std::function<void(const std::vector<std::string>&)>& read,
                                 const std::string& description) {
  return keep(app_->add_option_function<std::vector<std::string>>(name, read, description));
}

Option* Command::add_flag(const std::string& name, bool& value, const std::string& description) {
  return keep(app_->add_flag(name, value, description));
}

Option* Command::add_switch_reader(const std::string& name, std::function<void(bool)> read,
                                   const std::string& description) {
  return keep(app_->add_flag_function(
      name, [read = std::move(read)](std::int64_t count) { read(count > 0); }, description));
}

void Command::remove_option(const std::string& name) {
  app_->remove_option(app_->get_option(name));
}

void Command::footer(const std::string& text) {
  app_->footer(text);
}

Command* Command::add_command(const std::string& name, const std::string& description) {
  return &commands_.emplace_back(*app_->add_subcommand(name, description));
}

void Command::require_command() {
  app_->require_subcommand(1);
}

void read_options(const std::string& name, std::vector<std::string> words,
                  const std::function<void(Command&)>& describe) {
  CLI::App app("", name);
  Command command(app);
  describe(command);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw Error(name, error.what());
  }
}

}  // namespace trireme::tools
