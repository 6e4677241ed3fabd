// A command of the command line as the file that describes it sees it: its options, and where their
// values go. The door to CLI11, whose header file alone takes seconds to compile wherever it is
// included: command.cc, command_tree.cc and program.cc do (a test looks).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trireme::tools {

// An option that a command has; what more there is to say of it can be chained.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  Option* type_name(const std::string& name);  // what --help calls a value of it
  Option* required();
  Option* default_text(const std::string& text);  // what --help shows where it was left out
  Option* excludes(const Option* other);
  Option* repeatable();  // one value each time that it is given

 private:
  CLI::Option* option_;
};

// Options write to what they were given when the command line is read; it must live until then.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  Option* add_option(const std::string& name, std::string& value, const std::string& description);
  Option* add_option(const std::string& name, std::vector<std::string>& values,
                     const std::string& description);
  Option* add_option(const std::string& name, std::int64_t& value, const std::string& description);
  // What was typed goes through `read`, which may throw Error.
  Option* add_option_reader(const std::string& name,
                            const std::function<void(const std::string&)>& read,
                            const std::string& description);
  Option* add_list_reader(const std::string& name,
                          const std::function<void(const std::vector<std::string>&)>& read,
                          const std::string& description);
  Option* add_flag(const std::string& name, bool& value, const std::string& description);
  // "--this,!--no-this": `read` is told which.
  Option* add_switch_reader(const std::string& name, std::function<void(bool)> read,
                            const std::string& description);
  void remove_option(const std::string& name);
  // What --help ends with.
  void footer(const std::string& text);
  Command* add_command(const std::string& name, const std::string& description);
  void require_command();  // of those added
  [[nodiscard]] CLI::App* app() const { return app_; }

 private:
  Option* keep(CLI::Option* option);

  CLI::App* app_;
  std::list<Option> options_;
  std::list<Command> commands_;
};

// Reads words as the options that `describe` adds to a command called `name`. Throws Error.
void read_options(const std::string& name, std::vector<std::string> words,
                  const std::function<void(Command&)>& describe);

}  // namespace trireme::tools
