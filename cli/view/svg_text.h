// Text for SVG and HTML documents.
// Thread: any; pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli::inline view {

// Returns the text with &, <, > and " written as entities. Characters that XML does not allow become '?'. The text must
// be printable UTF-8 (base::printable).
std::string escape_markup(std::string_view text);

// Returns what fits into `width` pixels at 12 px of a monospaced font. Empty if that is too little to read.
std::string fitting_text(const std::string& text, double width);

}  // namespace muster::cli::view
