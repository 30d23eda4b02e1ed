#include "launcherd/run/alike_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::alike_ranks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

model::RankEnd end(int rank, model::EndKind kind, int exit_code) {
  model::RankEnd result;
  result.rank = rank;
  result.kind = kind;
  result.exit_code = exit_code;
  return result;
}

std::string raised(const std::string& exception) {
  return "  File \"x.py\", line 3, in f\n    g()\n" + exception + "\n";
}

TEST(AlikeRanks, HaveTheRootCausesException) {
  using enum model::EndKind;
  std::vector<model::RankEnd> ends{end(0, kExited, 1), end(1, kExited, 1), end(2, kExited, 1), end(3, kStopped, 0),
                                   end(4, kExited, 0), end(5, kExited, 1), end(6, kExited, 1)};
  model::RankEnd late = end(7, kStopped, 1);
  ends.push_back(late);
  late.rank = 8;
  late.signal = 15;
  ends.push_back(late);
  const std::map<int, std::string> tails{{0, raised("ValueError: rank 0")},      {1, raised("ValueError: rank 1")},
                                         {2, raised("ConnectionError: closed")}, {3, raised("ValueError: rank 3")},
                                         {4, raised("ValueError: rank 4")},      {6, raised("ValueError: rank 6")},
                                         {7, raised("ValueError: rank 7")},      {8, raised("ValueError: rank 8")}};
  EXPECT_THAT(alike_ranks(ends, 1, tails), ElementsAre(0, 6, 7));
  EXPECT_THAT(alike_ranks(ends, 5, tails), IsEmpty()) << "it has no exception";
  EXPECT_THAT(alike_ranks(ends, -1, tails), IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::alike_ranks_test
