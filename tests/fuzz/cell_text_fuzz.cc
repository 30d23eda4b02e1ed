// Text of other users on the screen of `muster top`: whatever it is, no control character reaches the terminal, and a
// line is never wider than the screen.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"
#include "cli/top/cell_text.h"
#include "cli/top/styled_line.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;  // NOLINT: only this function
  if (size == 0) return 0;
  const int cells = data[0] % 50;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string shown = cli::harmless(text);
  MUSTER_CHECK(base::is_utf8(shown));
  MUSTER_CHECK(base::printable(shown) == shown);
  MUSTER_CHECK(cli::harmless(shown) == shown);
  MUSTER_CHECK(cli::cells_in(cli::cut_to(shown, cells)) <= cells);
  MUSTER_CHECK(cli::cells_in(cli::padded_to(shown, cells)) == cells);
  MUSTER_CHECK(cli::cells_in(cli::end_of(shown, cells)) <= cells);
  MUSTER_CHECK(cli::without_last(shown).size() < shown.size() || shown.empty());
  const cli::StyledLine line = cli::fitted({.parts = {{std::string(text)}}, .is_selected = true}, cells);
  MUSTER_CHECK(cli::cells_in(cli::text_of(line)) == cells);
  return 0;
}
