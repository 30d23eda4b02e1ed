// This file reads a command line as far as it is typed, and finds what fits its last word.
// Read complete_words() at the end first, then LineReader from its read() on.
#include "cli/help/completion.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline help {
namespace {

using Words = std::vector<std::string>;

// Returns the first sentence of a help text.
std::string_view description_of_flag(std::string_view help) {
  const std::size_t end = help.find(". ");
  const std::string_view sentence = help.substr(0, end);
  return sentence.ends_with('.') ? sentence.substr(0, sentence.size() - 1) : sentence;
}

void add_options(Completion& completion, const FlagTable& table) {
  for (const Flag& flag : table.flags()) {
    for (const Spelling& spelling : flag.spellings) {
      add_candidate(completion, spelling.text, description_of_flag(flag.help));
    }
  }
}

// Offers what fits the value of an option or an argument. `word` is what is typed of it.
void complete_value(Completion& completion, Completes what, const std::vector<std::string_view>& choices,
                    std::string_view word) {
  if (what == Completes::kHost) {  // a list: n1,n2
    const std::size_t comma = word.rfind(',');
    const std::size_t kept = comma == std::string_view::npos ? 0 : comma + 1;
    completion.before += word.substr(0, kept);
    word.remove_prefix(kept);
    completion.continues = true;
  }
  completion.word = word;
  completion.wanted = what;
  for (const std::string_view choice : choices) add_candidate(completion, choice);
}

// Returns the argument at this place among the words that are no options. nullptr if none belongs there.
const Argument* argument_at(const FlagTable& table, const Words& before) {
  const Argument* last = nullptr;
  std::size_t place = 0;
  for (const Argument& argument : table.arguments()) {
    if (!argument.after.empty() && (before.empty() || argument.after != before.front())) continue;
    if (place++ == before.size()) return &argument;
    last = argument.repeats ? &argument : nullptr;
  }
  return last;
}

bool ends_options(Completes what) {
  return what == Completes::kCommand || what == Completes::kScript;
}

class LineReader {
 public:
  LineReader(const FlagTable& table, const Words& words, std::size_t first)
      : table_(table), words_(words), at_(first), last_(words.size() - 1) {}

  Completion read() {
    while (at_ < last_) {
      const std::string& word = words_[at_];
      if (!has_dashes_ && word == "--") {
        has_dashes_ = true;
        ++at_;
      } else if (!has_dashes_ && word.size() > 1 && word.front() == '-') {
        if (read_option(word)) return std::move(found_);
      } else if (read_argument(word)) {
        return std::move(found_);
      }
    }
    complete_last();
    return std::move(found_);
  }

 private:
  // Reads an option before the last word. Returns true if the last word is its value.
  bool read_option(const std::string& word) {
    ++at_;
    const std::size_t equals = word.find('=');
    const auto match = table_.find(word.substr(0, equals));
    if (!match) return false;
    if (equals != std::string::npos || !match->spelling->value.empty()) {
      const std::string value(equals != std::string::npos ? word.substr(equals + 1) : match->spelling->value);
      found_.options.push_back({match->flag, std::string(match->spelling->text), value});
      return false;
    }
    const auto count = static_cast<std::size_t>(match->flag->values);
    if (at_ + count > last_) {
      complete_value(found_, match->flag->completes, match->flag->choices, words_[last_]);
      return true;
    }
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(at_);
    const Words values(begin, begin + static_cast<std::ptrdiff_t>(count));
    found_.options.push_back({match->flag, std::string(match->spelling->text), base::join(values, " ")});
    at_ += count;
    return false;
  }

  // Reads a word before the last one that is no option. Returns true if a command begins with it.
  bool read_argument(const std::string& word) {
    const Argument* argument = argument_at(table_, found_.arguments);
    if (argument != nullptr && ends_options(argument->completes)) {
      complete_command(argument->completes == Completes::kScript ? Completes::kFile : Completes::kCommand);
      return true;
    }
    found_.arguments.push_back(word);
    ++at_;
    return false;
  }

  void complete_command(Completes what) {
    found_.wanted = what;
    found_.command_at = at_;
    found_.word = words_[last_];
  }

  void complete_last() {
    const std::string& word = words_[last_];
    if (!has_dashes_ && word.starts_with('-')) {
      const std::size_t equals = word.find('=');
      const auto match = table_.find(word.substr(0, equals));
      if (equals == std::string::npos) {
        found_.word = word;
        add_options(found_, table_);
      } else if (match && match->flag->values == 1 && match->spelling->value.empty()) {
        found_.before = word.substr(0, equals + 1);
        complete_value(found_, match->flag->completes, match->flag->choices, std::string_view(word).substr(equals + 1));
      }
      return;
    }
    const Argument* argument = argument_at(table_, found_.arguments);
    if (argument == nullptr) {
      // The command takes no word here, so show its options.
      found_.word = word;
      if (word.empty()) add_options(found_, table_);
    } else if (ends_options(argument->completes)) {
      complete_command(argument->completes == Completes::kScript ? Completes::kFile : Completes::kCommand);
    } else {
      complete_value(found_, argument->completes, argument->choices, word);
    }
  }

  const FlagTable& table_;
  const Words& words_;
  std::size_t at_;
  const std::size_t last_;
  bool has_dashes_ = false;
  Completion found_;
};

// Returns the index after the last ":" that separates programs: an option follows it. Each program has its own options.
std::size_t begin_of_program(const FlagTable& table, const Words& words) {
  if (table.arguments().empty() || table.arguments().front().completes != Completes::kCommand) return 0;
  for (std::size_t i = words.size() - 1; i > 0; --i) {
    if (words[i - 1] == ":" && words[i].starts_with('-')) return i;
  }
  return 0;
}

const CompletedProgram::Verb* find_verb(const CompletedProgram& program, const std::string& name) {
  for (const CompletedProgram::Verb& verb : program.verbs) {
    const bool is_alias = std::ranges::find(verb.aliases, name) != verb.aliases.end();
    if (verb.name == name || is_alias) return &verb;
  }
  return nullptr;
}

Completion complete_with(const FlagTable& table, const Words& words, std::size_t first) {
  return LineReader(table, words, std::max(first, begin_of_program(table, words))).read();
}

// Returns the index of the first word that is neither an option before the verb nor its value; at most that of the last
// word. nullopt if the last word is the value of such an option.
std::optional<std::size_t> place_of_verb(const FlagTable& own, const Words& words) {
  std::size_t at = 0;
  while (at + 1 < words.size() && words[at].starts_with('-')) {
    const auto match = own.find(words[at]);
    at += 1 + (match && match->spelling->value.empty() ? static_cast<std::size_t>(match->flag->values) : 0);
  }
  return at < words.size() ? std::optional(at) : std::nullopt;
}

Completion complete_verb(const CompletedProgram& program, const std::string& word) {
  Completion completion;
  completion.word = word;
  for (const CompletedProgram::Verb& verb : program.verbs) add_candidate(completion, verb.name, verb.summary);
  return completion;
}

}  // namespace

Completion complete_words(const CompletedProgram& program, const std::vector<std::string>& words) {
  if (words.empty()) return complete_words(program, {""});
  if (program.verbs.size() == 1 && program.verbs.front().name.empty()) {
    return complete_with(*program.verbs.front().table, words, 0);
  }
  static const FlagTable kNone({});
  const FlagTable& own = program.own != nullptr ? *program.own : kNone;
  const auto at = place_of_verb(own, words);
  if (!at || (*at + 1 == words.size() && words.back().starts_with('-'))) return complete_with(own, words, 0);
  if (*at + 1 == words.size()) return complete_verb(program, words.back());
  const CompletedProgram::Verb* const verb = find_verb(program, words[*at]);
  return verb == nullptr ? Completion() : complete_with(*verb->table, words, *at + 1);
}

void add_candidate(Completion& completion, std::string_view text, std::string_view description) {
  const auto is_plain = [](unsigned char c) {
    constexpr std::string_view kPlain = "-_.,:=+@%/";
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (text.empty() || !text.starts_with(completion.word) || !std::ranges::all_of(text, is_plain)) return;
  completion.candidates.push_back({std::string(text), std::string(description)});
}

std::string format_completion(const Completion& completion) {
  std::string text;
  if (completion.continues) text += ":nospace\n";
  switch (completion.wanted) {
    case Completes::kFile:
    case Completes::kTemplate:
      text += fmt::format(":files\t{}\n", completion.before);
      break;
    case Completes::kDirectory:
      text += fmt::format(":folders\t{}\n", completion.before);
      break;
    case Completes::kCommand:
      text += fmt::format(":command\t{}\n", completion.command_at);
      break;
    default:
      break;
  }
  for (const Candidate& candidate : completion.candidates) {
    text += completion.before + candidate.text;
    // A tab or a line break of a description would look like the protocol's own.
    if (!candidate.description.empty()) text += "\t" + base::printable(candidate.description);
    text += "\n";
  }
  return text;
}

}  // namespace muster::cli::help
