// Noise of login shells before the agent's marker. The scanner must give the same answer however the bytes are cut,
// never consume a byte after the marker line, and find exactly what a plain search finds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/marker_scanner.h"

using muster::launcherd::MarkerScanner;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 32u + 1;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  MarkerScanner whole("ab12");
  const std::size_t end = whole.feed(text);
  MarkerScanner cut("ab12");
  std::size_t at = 0;
  while (at < text.size() && cut.state() == MarkerScanner::State::kSearching) at += cut.feed(text.substr(at, piece));
  require(at == end && cut.state() == whole.state() && cut.noise() == whole.noise());
  require(whole.noise().size() <= MarkerScanner::kKeptNoise);
  const std::string line = "MUSTER-AGENT 1 ab12\n";
  if (whole.state() == MarkerScanner::State::kFound) require(text.substr(0, end).ends_with(line));
  if (whole.state() == MarkerScanner::State::kSearching) require(text.find(line) == std::string_view::npos);
  require(muster::launcherd::quote_for_message(text).size() <= 200);
  (void)muster::launcherd::classify_agent_end(data[0], text, text);
  (void)muster::launcherd::classify_ssh_errors(text);
  return 0;
}
