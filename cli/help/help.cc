// HelpText collects the lines of a help text at one width. Read from the end: help_text(), short_help_text(), then the
// members of HelpText that they call.
#include "cli/help/help.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline help {
namespace {

constexpr std::size_t kCommandColumn = 28;  // one line for each command on a terminal of 80 columns
constexpr std::size_t kUsualColumns = 90;
constexpr std::size_t kNarrowColumns = 72;
constexpr std::size_t kExamplesOfShortHelp = 2;
// Options that -h leaves out if a command does not name its most used ones.
constexpr std::string_view kSeldomUsed[] = {"tls-cert", "tls-key", "tls-ca", "color", "help", "short-help"};

// Returns the number of characters of UTF-8 text.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Returns "--on-exit KIND, --keep-going": spellings that take a value, the value's name, spellings without a value.
std::string spelling_of(const Flag& flag, const std::vector<Spelling>& spellings) {
  std::vector<std::string> with_value;
  std::vector<std::string> alone;
  for (const Spelling& spelling : spellings) {
    (spelling.value.empty() ? with_value : alone).emplace_back(spelling.text);
  }
  if (!with_value.empty()) {
    alone.insert(alone.begin(), fmt::format("{} {}", base::join(with_value, ", "), flag.value_name));
  }
  return base::join(alone, ", ");
}

// Returns the spellings that -h shows: the first short one (-N, -np) and the first long one.
std::vector<Spelling> main_spellings(const Flag& flag) {
  constexpr std::size_t kLongestShort = 3;
  std::vector<Spelling> found;
  const auto brief =
      std::ranges::find_if(flag.spellings, [](const Spelling& each) { return each.text.size() <= kLongestShort; });
  if (brief != flag.spellings.end()) found.push_back(*brief);
  const auto whole =
      std::ranges::find_if(flag.spellings, [](const Spelling& each) { return each.text.starts_with("--"); });
  if (whole != flag.spellings.end()) found.push_back(*whole);
  return found.empty() ? flag.spellings : found;
}

std::string_view first_sentence(std::string_view text) {
  const std::size_t end = text.find(". ");
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

// Returns the summary as a sentence.
std::string sentence(std::string_view summary) {
  std::string text(summary);
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

class HelpText {
 public:
  explicit HelpText(const TextLook& look)
      : columns_(look.columns),
        wide_column_(look.columns < kUsualColumns ? 28 : 34),
        option_column_(look.columns < kNarrowColumns ? 8 : wide_column_),
        paint_(look.has_color) {}

  std::string take() { return std::move(text_); }

  void heading(std::string_view title) { text_ += fmt::format("\n{}\n", paint_.heading(fmt::format("{}:", title))); }
  void paragraphs(std::string_view text) { text_ += fmt::format("\n{}\n", wrapped(text, 0, 0)); }
  void usage(const CommandDoc& doc);
  void commands(const CommandDoc& doc);
  void option(const Flag& flag);
  void brief_option(const Flag& flag) {
    entry(spelling_of(flag, main_spellings(flag)), first_sentence(flag.help), option_column_);
  }
  void examples(const CommandDoc& doc, std::size_t most);
  void exit_codes(const CommandDoc& doc);

 private:
  std::string wrapped(std::string_view text, std::size_t begin, std::size_t indent) const;
  void entry(std::string_view left, std::string_view right, std::size_t column);

  const std::size_t columns_;
  const std::size_t wide_column_;    // where the explanation of an exit code begins
  const std::size_t option_column_;  // where that of an option begins; on a narrow terminal it is below the option
  const Paint paint_;
  std::string text_;
};

// Wraps `text`. The first line begins at column `begin`, all others at `indent`. An empty line separates paragraphs.
std::string HelpText::wrapped(std::string_view text, std::size_t begin, std::size_t indent) const {
  std::string result;
  std::size_t column = begin;
  for (const std::string_view paragraph : base::split(text, '\n')) {
    if (!result.empty()) {
      result += fmt::format("\n{:{}}", "", paragraph.empty() ? 0 : indent);
      column = indent;
    }
    bool is_first = true;
    for (const std::string_view word : base::split(paragraph, ' ')) {
      if (!is_first && column + 1 + columns_of(word) > columns_) {
        result += fmt::format("\n{:{}}", "", indent);
        column = indent;
      } else if (!is_first) {
        result += ' ';
        ++column;
      }
      is_first = false;
      result += word;
      column += columns_of(word);
    }
  }
  return result;
}

// Adds `left` and, beside or below it, its explanation from `column` on.
void HelpText::entry(std::string_view left, std::string_view right, std::size_t column) {
  const std::string head = "  " + wrapped(left, 2, 6);
  const std::string explanation = wrapped(right, column, column);
  const std::size_t width = columns_of(head);
  const bool fits = head.find('\n') == std::string::npos && width + 2 <= column;
  const std::string gap = fits ? std::string(column - width, ' ') : "\n" + std::string(column, ' ');
  text_ += fmt::format("{}{}{}\n", paint_.option(head), gap, explanation);
}

void HelpText::usage(const CommandDoc& doc) {
  constexpr std::size_t kIndent = 7;  // behind "Usage: "
  const std::string words = wrapped(fmt::format("{} {}", doc.name, doc.usage), kIndent, kIndent + 2);
  text_ += fmt::format("{} {}\n", paint_.heading("Usage:"), words);
  if (doc.aliases.empty()) return;
  std::vector<std::string> others;
  for (const std::string_view alias : doc.aliases) others.push_back(fmt::format("muster {}", alias));
  text_ += fmt::format("{} {}\n", paint_.heading("Also:"), base::join(others, ", "));
}

void HelpText::commands(const CommandDoc& doc) {
  for (const CommandGroup& group : doc.commands) {
    heading(group.title);
    for (const CommandGroup::Command& command : group.commands) entry(command.name, command.summary, kCommandColumn);
  }
}

void HelpText::option(const Flag& flag) {
  std::string help(flag.help);
  if (!flag.standard.empty()) help.insert(help.size() - 1, fmt::format(" (default {})", flag.standard));
  entry(spelling_of(flag, flag.spellings), help, option_column_);
}

void HelpText::examples(const CommandDoc& doc, std::size_t most) {
  if (doc.examples.empty()) return;
  heading("Examples");
  for (std::size_t i = 0; i < std::min(most, doc.examples.size()); ++i) {
    const Example& example = doc.examples[i];
    text_ += fmt::format("  {}\n", example.command);
    if (!example.effect.empty()) text_ += fmt::format("      {}\n", wrapped(example.effect, 6, 6));
  }
}

void HelpText::exit_codes(const CommandDoc& doc) {
  heading("Exit code");
  for (const ExitCode& code : doc.exit_codes) entry(code.codes, code.meaning, wide_column_);
}

}  // namespace

std::string help_text(const CommandDoc& doc, const TextLook& look) {
  HelpText text(look);
  text.usage(doc);
  text.paragraphs(doc.description);
  text.commands(doc);
  for (const GroupTitle& group : doc.groups) {
    text.heading(group.title);
    for (const Flag& flag : doc.table->flags()) {
      if (flag.group == group.group) text.option(flag);
    }
  }
  if (!doc.notes.empty()) text.paragraphs(doc.notes);
  text.examples(doc, doc.examples.size());
  text.exit_codes(doc);
  return text.take();
}

std::string short_help_text(const CommandDoc& doc, const TextLook& look) {
  HelpText text(look);
  text.usage(doc);
  text.paragraphs(sentence(doc.summary));
  text.commands(doc);
  if (doc.commands.empty()) text.heading(doc.most_used.empty() ? "Options" : "Most used options");
  for (const std::string_view name : doc.most_used) text.brief_option(doc.table->named(name));
  for (const Flag& flag : doc.table->flags()) {
    const bool is_left_out = std::ranges::find(kSeldomUsed, flag.name) != std::end(kSeldomUsed);
    if (doc.commands.empty() && doc.most_used.empty() && !is_left_out) text.brief_option(flag);
  }
  text.examples(doc, kExamplesOfShortHelp);
  text.paragraphs(fmt::format("{} --help shows everything.", doc.name));
  return text.take();
}

std::string help_text_for(const Flag& option, const CommandDoc& doc, const TextLook& look) {
  return option.name == "short-help" ? short_help_text(doc, look) : help_text(doc, look);
}

std::string version_text(std::string_view program, std::string_view build_id) {
  return fmt::format("{} {} ({}), horovodrun 0.28.1 flags\n", program, MUSTER_VERSION, build_id);
}

}  // namespace muster::cli::help
