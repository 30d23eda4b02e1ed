// The filter of `muster top` for what launcherd does not filter: hosts, and jobs of foreground hvdruns.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline top {

// Returns whether each word of `filter` is a part of one of the texts. Case does not count. An empty filter has no
// words.
bool has_all_words(const std::string& filter, const std::vector<std::string>& texts);

}  // namespace muster::cli::top
