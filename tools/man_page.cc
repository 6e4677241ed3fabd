#include "tools/man_page.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::tools {
namespace {

// What man would read as its own: backslashes, hyphens of options, a line that begins with a dot or
// a quote.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string synopsis(const CommandPage& page) {
  std::string line = page_name(page, ' ') + " [OPTIONS]";
  for (const CommandOption& word : page.positionals) {
    line += " [" + word.type + "]";
  }
  return line + (page.commands.empty() ? "" : " COMMAND");
}

void add_options(std::string& text, const std::string& heading,
                 const std::vector<CommandOption>& options) {
  if (options.empty()) {
    return;
  }
  text += ".SH " + heading + "\n";
  for (const CommandOption& option : options) {
    const std::string names = fmt::format("{}", fmt::join(option.names, ", "));
    text += fmt::format(".TP\n\\fB{}\\fR{}\\fI{}\\fR\n{}\n", escaped(names),
                        names.empty() || option.type.empty() ? "" : " ", escaped(option.type),
                        escaped(option.description));
  }
}

}  // namespace

std::string man_page(const CommandPage& page, const std::string& version) {
  const std::string name = page_name(page, '-');
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string text =
      fmt::format(".TH \"{}\" 1 \"\" \"trireme {}\" \"Trireme\"\n.SH NAME\n{} \\- {}\n", title,
                  version, escaped(name), escaped(page.description));
  text += fmt::format(".SH SYNOPSIS\n.nf\n{}\n.fi\n", escaped(synopsis(page)));
  add_options(text, "ARGUMENTS", page.positionals);
  add_options(text, "OPTIONS", page.options);
  if (!page.commands.empty()) {
    text += ".SH COMMANDS\n";
    for (const std::string& command : page.commands) {
      text += fmt::format(".TP\n\\fB{}(1)\\fR\n", escaped(name + "-" + command));
    }
  }
  constexpr std::string_view kHeading = "Example:\n";
  if (page.footer.starts_with(kHeading)) {
    text +=
        fmt::format(".SH EXAMPLE\n.nf\n{}\n.fi\n", escaped(page.footer.substr(kHeading.size())));
  }
  text +=
      ".SH EXIT STATUS\n0: done. 1: the answer is no (nothing fits, a check failed). 2: wrong "
      "usage or bad input, said "
      "in one line. 3: the machine lacks what was asked for.\n";
  return text + (page.path.empty() ? "" : ".SH SEE ALSO\n\\fBtrireme\\fR(1)\n");
}

}  // namespace trireme::tools
