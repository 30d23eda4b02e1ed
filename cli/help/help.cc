#include "cli/help/help.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline help {
namespace {

constexpr std::size_t kColumns = 96;
constexpr std::size_t kHelpColumn = 34;

// Returns "--on-exit KIND, --keep-going": spellings that take a value, the value's name, spellings without a value.
std::string spelling_of(const Flag& flag) {
  std::vector<std::string> with_value;
  std::vector<std::string> alone;
  for (const Spelling& spelling : flag.spellings) {
    (spelling.value.empty() ? with_value : alone).emplace_back(spelling.text);
  }
  if (!with_value.empty()) {
    alone.insert(alone.begin(), fmt::format("{} {}", base::join(with_value, ", "), flag.value_name));
  }
  return base::join(alone, ", ");
}

// Wraps `text` at kColumns. The first line begins at column `begin`, all others at `indent`. An empty line separates
// paragraphs.
std::string wrapped(std::string_view text, std::size_t begin, std::size_t indent) {
  std::string result;
  std::size_t column = begin;
  for (const std::string_view paragraph : base::split(text, '\n')) {
    if (!result.empty()) {
      result += fmt::format("\n{:{}}", "", paragraph.empty() ? 0 : indent);
      column = indent;
    }
    bool is_first = true;
    for (const std::string_view word : base::split(paragraph, ' ')) {
      if (!is_first && column + 1 + word.size() > kColumns) {
        result += fmt::format("\n{:{}}", "", indent);
        column = indent;
      } else if (!is_first) {
        result += ' ';
        ++column;
      }
      is_first = false;
      result += word;
      column += word.size();
    }
  }
  return result;
}

std::string entry(const std::string& left, std::string_view right) {
  const std::string head = "  " + wrapped(left, 2, 6);
  const std::string text = wrapped(right, kHelpColumn, kHelpColumn);
  const bool fits = head.size() + 2 <= kHelpColumn;
  return fits ? fmt::format("{:<{}}{}\n", head, kHelpColumn, text)
              : fmt::format("{}\n{:{}}{}\n", head, "", kHelpColumn, text);
}

std::string option_entry(const Flag& flag) {
  std::string help(flag.help);
  if (!flag.standard.empty()) help.insert(help.size() - 1, fmt::format(" (default {})", flag.standard));
  return entry(spelling_of(flag), help);
}

}  // namespace

std::string help_text(const CommandDoc& doc) {
  std::string text = fmt::format("Usage: {} {}\n\n{}\n", doc.name, doc.usage, wrapped(doc.description, 0, 0));
  for (const GroupTitle& group : doc.groups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const Flag& flag : doc.table->flags()) {
      if (flag.group == group.group) text += option_entry(flag);
    }
  }
  if (!doc.notes.empty()) text += fmt::format("\n{}\n", wrapped(doc.notes, 0, 0));
  text += "\nExamples:\n";
  for (const Example& example : doc.examples) {
    text += fmt::format("  {}\n", example.command);
    if (!example.effect.empty()) text += fmt::format("      {}\n", wrapped(example.effect, 6, 6));
  }
  text += "\nExit code:\n";
  for (const ExitCode& code : doc.exit_codes) text += entry(code.codes, code.meaning);
  return text;
}

std::string version_text(std::string_view program, std::string_view build_id) {
  return fmt::format("{} {} ({}), horovodrun 0.28.1 flags\n", program, MUSTER_VERSION, build_id);
}

}  // namespace muster::cli::help
