#include "tools/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "tools/build_facts.h"
#include "tools/commands.h"
#include "topologies/name_match.h"

namespace trireme::tools {
namespace {

// One line whatever the message holds.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') {
    text.pop_back();
  }
  return text;
}

int complain(const Console& console, const std::string& line, int code) {
  fmt::print(console.err, "trireme: {}\n", one_line(line));
  return code;
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return names;
}

const CLI::App& innermost(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

// What other programs call an option of ours, without "-size" and "-degree" at the end.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"--tp", " tensor-parallel tensor-model-parallel tensor-parallelism "},
    {"--pp", " pipeline-parallel pipeline-model-parallel pipeline-parallelism stages "},
    {"--cp", " context-parallel sequence-parallel-ranks ulysses sp "},
    {"--ep", " expert-parallel expert-model-parallel "},
    {"--etp", " expert-tensor-parallel "},
    {"--vpp", " virtual-pipeline virtual-pipeline-model-parallel vp "},
    {"--fsdp", " shard data-parallel-shard "},
    {"--dp", " replicate data-parallel-replicate ddp "},
    {"--micro-batch", " mbs micro-batch micro-bs per-device-train-batch "},
    {"--global-batch", " gbs batch global-batch train-batch bs "},
    {"--sharding", " zero zero-stage "},
    {"--seq",
     " seq-len seqlen seq-length sequence-length context-length max-length max-seq-len "
     "max-seq-length "},
    {"--precision", " dtype mixed-precision "},
    {"--optimizer", " optim "},
    {"--gpus", " num-gpus world n-gpus ngpus nproc nproc-per-node "},
    {"--cluster", " nodes nnodes num-nodes machine "},
    {"--recompute",
     " recompute-granularity activation-checkpointing activation-checkpoint "
     "gradient-checkpointing "},
    {"--lora-rank", " lora lora-r "},
};

// "; --tp is", or the options with nearly that name.
std::string near_options(const CLI::App& command, const std::string& typed) {
  std::string wrong = typed.substr(0, typed.find('='));
  std::replace(wrong.begin(), wrong.end(), '_', '-');
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  std::string word = wrong.substr(std::min<std::size_t>(2, wrong.size()));
  for (const std::string_view end : {"-size", "-degree"}) {
    word.resize(word.size() - (word.ends_with(end) ? end.size() : 0));
  }
  for (const auto& [option, others] : kOtherNames) {
    const bool has = std::find(names.begin(), names.end(), option) != names.end();
    if (has && ("--" + word == option || others.find(" " + word + " ") != std::string_view::npos)) {
      return fmt::format("; {} is", option);
    }
  }
  return names.empty() ? "" : "; the nearest are " + topologies::nearest_names(wrong, names);
}

// "topo show"
std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr || parent->get_parent() == nullptr
             ? command.get_name()
             : path_of(*parent) + " " + command.get_name();
}

// CLI11's words in the form of every other error: WHERE: WHAT, and where to look.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const std::string name = command.get_parent() == nullptr ? "trireme" : path_of(command);
  const auto extras = app.remaining(true);
  if (const auto* required = dynamic_cast<const CLI::RequiredError*>(&error);
      required != nullptr && command.get_subcommands({}).size() > 0) {
    const bool typed = !extras.empty() && !extras.front().starts_with("-");
    return typed ? fmt::format("{}: is not a command of {}; there are {}", extras.front(), name,
                               command_names(command))
                 : fmt::format("{}: a command is missing; there are {}", name,
                               command_names(command));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty()) {
    const bool option = extras.front().starts_with("-");
    const bool top = command.get_parent() == nullptr;
    return fmt::format(
        "{}: is not {} of {}{}", extras.front(),
        option ? "an option" : (top ? "a command" : "an argument"), name,
        top && !option ? "; there are " + command_names(command)
                       : fmt::format("{}; see trireme {}--help",
                                     option ? near_options(command, extras.front()) : std::string(),
                                     top ? "" : name + " "));
  }
  const std::string words = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr &&
      words.find(" required ") != std::string::npos) {
    // "--tp: 1 required N missing", "--tp: At Most 1 required but received 2"
    const std::string what = words.ends_with(" missing") ? "has no value" : "takes one value";
    return fmt::format("{}: {}; see trireme {} --help", words.substr(0, words.find(':')), what,
                       name);
  }
  return fmt::format("{}: {}; see trireme {}--help", name, words,
                     command.get_parent() == nullptr ? "" : name + " ");
}

[[noreturn]] void refuse_empty(const std::string& name, const std::string& type) {
  throw Error(name, fmt::format("is empty; {} would be right, or leave it out",
                                type.empty() || type == "TEXT" ? "a value" : type));
}

// An option whose value is empty ('--nodes ""', "--seq=") is a variable that nobody set, and would
// mean the default in silence. Asked before CLI11 reads, which drops some empty words.
void refuse_empty_options(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("-")) {
      const auto below =
          command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
      command = below.empty() ? command : below.front();
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = command->get_option_no_throw(name);
    const bool empty = equals == std::string::npos ? i + 1 < words.size() && words[i + 1].empty()
                                                   : equals + 1 == word.size();
    if (option != nullptr && option->get_type_size() > 0 && empty) {
      refuse_empty(name, option->get_type_name());
    }
  }
}

// Words that stand without an option: a plan, a file. Those of a list ($1, $2 of a script) may be
// empty.
void refuse_empty_words(const CLI::App& app) {
  for (const CLI::Option* option : innermost(app).get_options()) {
    const std::vector<std::string>& values = option->results();
    if (option->get_positional() && option->get_expected_max() == 1 && !values.empty() &&
        values.front().empty()) {
      const std::string type = option->get_type_name();
      refuse_empty(type.empty() || type == "TEXT" ? option->get_name(true, false) : type, type);
    }
  }
}

constexpr std::string_view kManual = "manual";

struct NamedCommand {
  std::string_view name;
  void (*add)(Command& app, Program& program) = nullptr;
};
constexpr NamedCommand kCommands[] = {
    {"compare", add_compare_command},   {"plan", add_plan_command},
    {"estimate", add_estimate_command}, {"explain", add_explain_command},
    {"export", add_export_command},     {"simulate", add_simulate_command},
    {"whatif", add_whatif_command},     {"calibrate", add_calibrate_command},
    {"clusters", add_clusters_command}, {"frameworks", add_frameworks_command},
    {"models", add_models_command},     {"run", add_run_command},
    {"validate", add_validate_command}, {"budget", add_budget_command},
    {"serve", add_serve_command},       {"check", add_check_command},
    {"topo", add_topo_command},         {"tune", add_tune_command},
    {"doctor", add_doctor_command},     {kManual, add_manual_command}};

// The command that the first word names, without the options of the others, which take three
// quarters of a short answer's time; all of them where none is named, and where all are described.
void add_commands(Command& app, Program& program, const std::vector<std::string>& arguments) {
  const auto* const named =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const NamedCommand& command) {
        return !arguments.empty() && command.name == arguments.front();
      });
  if (named != std::end(kCommands) && named->name != kManual) {
    named->add(app, program);
    return;
  }
  for (const NamedCommand& command : kCommands) {
    command.add(app, program);
  }
}

int run_action(const Action& action, Console& console) {
  try {
    const int code = action(console);
    if (std::fflush(console.out) != 0) {
      return complain(console, "stdout: cannot be written; the result is not complete",
                      kWrongInput);
    }
    return code;
  } catch (const Error& error) {
    return complain(console, error.what(),
                    error.kind() == ErrorKind::kMissingMachine ? kMissingMachine : kWrongInput);
  } catch (const std::bad_alloc&) {
    return complain(console, "memory: the request is too large for this machine", kWrongInput);
  } catch (const std::exception& error) {
    return complain(console, fmt::format("internal error: {}; please report it", error.what()),
                    kWrongInput);
  }
}

}  // namespace

const Action* Program::chosen() const {
  const Action* found = nullptr;
  for (const auto& [command, action] : actions_) {
    if (command->app()->parsed() && command->app()->get_subcommands().empty()) {
      found = &action;
    }
  }
  return found;
}

std::vector<std::string>* Program::rest() const {
  const auto found = std::find_if(rests_.begin(), rests_.end(),
                                  [](const auto& each) { return each.first->app()->parsed(); });
  return found == rests_.end() ? nullptr : found->second;
}

Command* add_command(Command& app, Program& program, const std::string& name,
                     const std::string& description, const std::string& example) {
  Command* command = app.add_command(name, description);
  command->add_flag("-q,--quiet", program.quiet, "no progress line and no remarks");
  command->footer("Example:\n  " + example);
  return command;
}

int run_program(const std::vector<std::string>& arguments, Console console) {
  CLI::App app(
      "Which parallel layout to train a transformer with on these GPUs: how fast, will it "
      "fit, and what would change if.",
      "trireme");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Example:\n  trireme plan --model llama-3.1-70b --cluster dgx-h100x8 --global-batch "
      "512 --seq 8192");
  app.set_version_flag("--version", build_text());
  Command root(app);
  Program program;
  try {
    add_commands(root, program, arguments);
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    std::vector<std::string> reversed(arguments.begin(), dashes);
    refuse_empty_options(app, reversed);
    std::reverse(reversed.begin(), reversed.end());
    app.parse(std::move(reversed));
    refuse_empty_words(app);
    if (dashes != arguments.end()) {
      std::vector<std::string>* rest = program.rest();
      if (rest == nullptr) {
        throw Error("--", "is followed by words that this command does not take; leave them out");
      }
      rest->assign(dashes + 1, arguments.end());
    }
  } catch (const CLI::CallForHelp&) {
    fmt::print(console.out, "{}", innermost(app).help());
    return kDone;
  } catch (const CLI::CallForAllHelp&) {
    fmt::print(console.out, "{}", app.help("", CLI::AppFormatMode::All));
    return kDone;
  } catch (const CLI::CallForVersion& version) {
    fmt::print(console.out, "{}\n", version.what());
    return kDone;
  } catch (const CLI::ParseError& error) {
    return complain(console, usage_error(app, error), kWrongInput);
  } catch (const Error& error) {  // an option's own reading of its value
    return complain(console, error.what(), kWrongInput);
  }
  console.quiet = program.quiet;
  console.progress = console.progress && !console.quiet;
  const Action* action = program.chosen();
  return action == nullptr ? complain(console, "a command is missing", kWrongInput)
                           : run_action(*action, console);
}

}  // namespace trireme::tools
