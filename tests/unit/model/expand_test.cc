#include "model/expand.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace muster::model::expand_test {
namespace {

TEST(Expand, ReplacesWhatItKnowsAndNothingElse) {
  const ExpandValues values{.rank = 5,
                            .local_rank = 1,
                            .node_rank = 2,
                            .nnodes = 3,
                            .size = 6,
                            .host = "n{rank}",
                            .master_addr = "10.0.0.1",
                            .master_port = 4242};
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", ""},
      {"plain", "plain"},
      {"{rank}", "5"},
      {"{rank}{size}", "56"},
      {"--rank={rank}/{size}", "--rank=5/6"},
      {"{local_rank} {node_rank} {nnodes}", "1 2 3"},
      {"tcp://{master_addr}:{master_port}", "tcp://10.0.0.1:4242"},
      {"{host}", "n{rank}"},  // what is put in is not looked at again
      {"{Rank} {rnk} {} { rank} {rank", "{Rank} {rnk} {} { rank} {rank"},
      {"{\"lr\": 1, \"r\": {rank}}", "{\"lr\": 1, \"r\": 5}"},
      {"model-{epoch}.pt", "model-{epoch}.pt"},
      {"{{rank}}", "{rank}"},
      {"{{{rank}}}", "{{rank}}"},
      {"{{rank}", "{5"},
      {"{rank}}", "5}"},
      {"{{epoch}}", "{{epoch}}"},
      {"}{", "}{"},
      {"{", "{"},
      {"{{", "{{"},
      {"\xff{rank}\x01",
       "\xff"
       "5\x01"},
  };
  for (const auto& [word, expected] : table) EXPECT_EQ(expand(word, values), expected) << word;
}

}  // namespace
}  // namespace muster::model::expand_test
