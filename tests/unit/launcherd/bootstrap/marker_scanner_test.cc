#include "launcherd/bootstrap/marker_scanner.h"

#include <gtest/gtest.h>

namespace muster::launcherd::marker_scanner_test {
namespace {

using State = MarkerScanner::State;

struct Scan {
  State state;
  std::string rest;
  std::string noise;
};

// Feeds `text` in pieces of `piece` bytes.
Scan scan(const std::string& text, std::size_t piece) {
  MarkerScanner scanner("ab12");
  std::size_t at = 0;
  while (at < text.size() && scanner.state() == State::kSearching) {
    at += scanner.feed(std::string_view(text).substr(at, piece));
  }
  return {scanner.state(), text.substr(at), scanner.noise()};
}

class MarkerScannerTest : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Pieces, MarkerScannerTest, ::testing::Values(1, 2, 7, 1000000));

TEST_P(MarkerScannerTest, FindsTheMarkerAndLeavesWhatFollows) {
  const Scan found = scan("MUSTER-AGENT 1 ab12\nMUSTER-AGENT 1 ab12\nx", GetParam());
  EXPECT_EQ(found.state, State::kFound);
  EXPECT_EQ(found.rest, "MUSTER-AGENT 1 ab12\nx");
  EXPECT_EQ(found.noise, "");
}

TEST_P(MarkerScannerTest, SkipsNoise) {
  const Scan found = scan("Welcome!\r\nMUSTER-AGENT 2 x\n% MUSTERMUSTER-AGENT 1 ab12\n\n", GetParam());
  EXPECT_EQ(found.state, State::kFound);
  EXPECT_EQ(found.rest, "\n");
  EXPECT_EQ(found.noise, "Welcome!\r\nMUSTER-AGENT 2 x\n% MUSTER");
}

TEST_P(MarkerScannerTest, FindsAMarkerInsideABrokenOne) {
  EXPECT_EQ(scan("MUSTER-AGENT 1 aMUSTER-AGENT 1 ab12\n", GetParam()).state, State::kFound);
  EXPECT_EQ(scan("MUSTER-AGENT 1 MUSTER-AGENT 1 ab12\n", GetParam()).state, State::kFound);
  EXPECT_EQ(scan("MUSTER-AGENT 1 ab12 MUSTER-AGENT 1 ab12\n", GetParam()).state, State::kFound);
}

TEST_P(MarkerScannerTest, KeepsSearchingWithoutANewline) {
  EXPECT_EQ(scan("MUSTER-AGENT 1 ab12", GetParam()).state, State::kSearching);
  EXPECT_EQ(scan("MUSTER-AGENT 1 \n", GetParam()).state, State::kSearching);
  EXPECT_EQ(scan("", GetParam()).state, State::kSearching);
}

TEST(MarkerScannerLimitsTest, NamesAnotherBuild) {
  MarkerScanner scanner("ab12");
  scanner.feed("MUSTER-AGENT 1 cd34\n");
  EXPECT_EQ(scanner.state(), State::kOtherBuild);
  EXPECT_EQ(scanner.other_id(), "cd34");
  EXPECT_EQ(scanner.feed("more"), 0u);
}

TEST(MarkerScannerLimitsTest, GivesUpOnTooMuchNoise) {
  MarkerScanner scanner("ab12");
  EXPECT_EQ(scanner.feed(std::string(MarkerScanner::kMaxNoise, 'x')), MarkerScanner::kMaxNoise);
  EXPECT_EQ(scanner.state(), State::kSearching);
  scanner.feed("x");
  EXPECT_EQ(scanner.state(), State::kTooMuchNoise);
  EXPECT_EQ(scanner.noise().size(), MarkerScanner::kKeptNoise);
}

TEST(MarkerScannerLimitsTest, AnEndlessIdIsNoise) {
  MarkerScanner scanner("ab12");
  scanner.feed("MUSTER-AGENT 1 " + std::string(100'000, 'a'));
  EXPECT_EQ(scanner.state(), State::kTooMuchNoise);
}

}  // namespace
}  // namespace muster::launcherd::marker_scanner_test
