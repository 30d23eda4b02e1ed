#include "cli/help/man_page.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline help {
namespace {

// Converts a character beyond ASCII to roff's name, such as "\\[u2026]". Removes it from the beginning of `text`, which
// is UTF-8.
std::string read_wide(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t size = std::min<std::size_t>(lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2, text.size());
  unsigned code = lead & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  text.remove_prefix(size);
  return fmt::format("\\[u{:04X}]", code);
}

// Escapes text that roff would interpret: backslashes, dashes that the user must type, and dots and quotes at the
// beginning of a line.
std::string plain(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const char c = text.front();
    if (static_cast<unsigned char>(c) >= 0x80) {
      result += read_wide(text);
      continue;
    }
    if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
    text.remove_prefix(1);
  }
  return result;
}

std::string paragraphs(std::string_view text) {
  std::string result;
  for (const std::string_view paragraph : base::split(text, '\n')) {
    if (!paragraph.empty()) result += fmt::format(".PP\n{}\n", plain(paragraph));
  }
  return result;
}

std::string page_name(std::string_view name) {
  std::string page(name);
  std::ranges::replace(page, ' ', '-');
  return page;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Returns all spellings of an option. The value's name follows the spellings that take a value, as in --help.
std::string spellings(const Flag& flag) {
  std::vector<std::string> with_value;
  std::vector<std::string> alone;
  for (const Spelling& spelling : flag.spellings) {
    (spelling.value.empty() ? with_value : alone).push_back(fmt::format("\\fB{}\\fR", plain(spelling.text)));
  }
  if (!with_value.empty()) {
    alone.insert(alone.begin(), fmt::format("{} \\fI{}\\fR", base::join(with_value, ", "), plain(flag.value_name)));
  }
  return base::join(alone, ", ");
}

std::string option(const Flag& flag) {
  std::string text = fmt::format(".TP\n{}\n{}\n", spellings(flag), plain(flag.help));
  if (!flag.standard.empty()) text += fmt::format("Default: {}.\n", plain(flag.standard));
  if (!flag.answer_text.empty()) text += fmt::format("In this version: {}.\n", plain(flag.answer_text));
  if (flag.group == FlagGroup::kTorch || flag.group == FlagGroup::kTorchUnneeded || !flag.is_setting()) return text;
  const std::string variable = flag.variable();
  return text + fmt::format("Configuration: {}{}{}.\n", plain(flag.config_key),
                            variable.empty() ? "" : "; variable: ", variable);
}

std::string other_names(const CommandDoc& doc) {
  if (doc.aliases.empty()) return "";
  std::vector<std::string> names;
  for (const std::string_view alias : doc.aliases) names.push_back(fmt::format("\\fBmuster {}\\fR", plain(alias)));
  return fmt::format(".PP\nThe same command has these names: {}.\n", base::join(names, ", "));
}

std::string commands(const CommandDoc& doc) {
  std::string text = doc.commands.empty() ? "" : ".SH COMMANDS\n";
  for (const CommandGroup& group : doc.commands) {
    text += fmt::format(".SS {}\n", plain(group.title));
    for (const CommandGroup::Command& command : group.commands) {
      text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", plain(command.name), plain(command.summary));
    }
  }
  return text;
}

// Names the pages of the programs and of the verbs.
std::string see_also(const CommandDoc& doc) {
  std::vector<std::string> pages;
  for (const std::string_view program : {"hvdrun", "launcherd", "muster"}) {
    if (program != doc.name) pages.push_back(fmt::format("\\fB{}\\fR(1)", program));
  }
  for (const CommandGroup& group : doc.commands) {
    for (const CommandGroup::Command& command : group.commands) {
      if (command.has_page) pages.push_back(fmt::format("\\fBmuster\\-{}\\fR(1)", plain(command.name)));
    }
  }
  return fmt::format(".SH SEE ALSO\n{}\n", base::join(pages, ",\n"));
}

// Returns where settings are kept. Empty for a command that reads no such file.
std::string files(const CommandDoc& doc) {
  if (std::ranges::find(doc.table->flags(), "config-file", &Flag::name) == doc.table->flags().end()) return "";
  return ".SH FILES\n.TP\n/etc/muster/config.yaml\n.TQ\n~/.config/muster/config.yaml\n" +
         plain("Settings. --config-file names another file; --print-config shows the values in effect.") + "\n";
}

// Returns an example. One without an explanation is a paragraph of its own, because roff warns about empty lines.
std::string example_of(const Example& example) {
  const std::string command = fmt::format("\\fB{}\\fR\n", plain(example.command));
  if (example.effect.empty()) return ".PP\n" + command;
  return fmt::format(".TP\n{}{}\n", command, plain(example.effect));
}

}  // namespace

std::string man_page(const CommandDoc& doc) {
  const std::string page = page_name(doc.name);
  std::string text = fmt::format(".TH {} 1 \"\" \"muster {}\" \"Muster\"\n", upper(page), MUSTER_VERSION);
  text += fmt::format(".SH NAME\n{} \\- {}\n", plain(page), plain(doc.summary));
  text += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR {}\n", plain(doc.name), plain(doc.usage));
  text += fmt::format(".SH DESCRIPTION\n{}", paragraphs(doc.description));
  text += other_names(doc) + commands(doc);
  text += ".SH OPTIONS\n";
  for (const GroupTitle& group : doc.groups) {
    text += fmt::format(".SS {}\n", plain(group.title));
    for (const Flag& flag : doc.table->flags()) {
      if (flag.group == group.group) text += option(flag);
    }
  }
  if (!doc.notes.empty()) text += fmt::format(".SH NOTES\n{}", paragraphs(doc.notes));
  text += ".SH EXAMPLES\n";
  for (const Example& example : doc.examples) {
    text += example_of(example);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitCode& code : doc.exit_codes) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", plain(code.codes), plain(code.meaning));
  }
  return text + files(doc) + see_also(doc);
}

}  // namespace muster::cli::help
