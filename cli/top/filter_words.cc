#include "cli/top/filter_words.h"

#include <algorithm>

#include "base/strings.h"

namespace muster::cli::inline top {

bool has_all_words(const std::string& filter, const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += base::lower(text) + "\n";
  const std::string wanted = base::lower(filter);
  return std::ranges::all_of(base::split(wanted, ' '),
                             [&](std::string_view word) { return all.find(word) != std::string::npos; });
}

}  // namespace muster::cli::top
