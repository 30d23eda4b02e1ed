#include "cli/verbs/field_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/strings.h"

namespace muster::cli::inline verbs {
namespace {

using FieldName = std::pair<std::string_view, std::string_view>;

// Fields whose options have other names.
constexpr std::array kFields = {FieldName{"spec.size", "-np"},          FieldName{"spec.hosts", "-H"},
                                FieldName{"spec.ranks_per_host", "-N"}, FieldName{"spec.working_directory", "--wdir"},
                                FieldName{"spec.limits", "--ulimit"},   FieldName{"add_hosts", "HOST:SLOTS"}};
// Phrases that launcherd uses for fields inside a sentence. Longer phrases come first, because they hold shorter ones.
constexpr std::array kPhrases = {FieldName{"set oversubscribe (--oversubscribe)", "add --oversubscribe"},
                                 FieldName{"spec.size", "-np"},
                                 FieldName{"min_ranks", "--min-np"},
                                 FieldName{"max_ranks", "--max-np"},
                                 FieldName{"max_restarts", "--max-restarts"},
                                 FieldName{"on_failure", "--on-failure"}};

// Returns the option for a field, or for the field that it belongs to. Empty if no option sets it.
std::string option_of(std::string_view field, const FlagTable& table) {
  for (const auto& [name, option] : kFields) {
    if (field == name || (field.starts_with(name) && field[name.size()] == '.')) return std::string(option);
  }
  std::string option = "--" + std::string(field.substr(field.rfind('.') + 1));
  std::ranges::replace(option, '_', '-');
  return table.find(option) ? option : "";
}

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Replaces `phrase` where it stands as whole words.
void replace_phrase(const FieldName& phrase, std::string& text) {
  const auto& [from, to] = phrase;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    const std::size_t end = at + from.size();
    if ((at > 0 && is_of_name(text[at - 1])) || (end < text.size() && is_of_name(text[end]))) {
      at = end;
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

}  // namespace

base::Status in_words_of_options(const base::Status& refusal, const FlagTable& table) {
  std::string text = refusal.message();
  const std::size_t end = text.find(": ");
  const bool is_of_field =
      refusal.code() == base::Code::kInvalidArgument || refusal.code() == base::Code::kFailedPrecondition;
  if (!is_of_field || end == std::string::npos) return refusal;
  const std::string option = option_of(std::string_view(text).substr(0, end), table);
  if (option.empty()) return refusal;
  std::string sentence = text.substr(end);
  for (const FieldName& phrase : kPhrases) replace_phrase(phrase, sentence);
  return {refusal.code(), option + sentence};
}

}  // namespace muster::cli::verbs
