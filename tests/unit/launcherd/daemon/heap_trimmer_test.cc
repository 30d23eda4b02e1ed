#include "launcherd/daemon/heap_trimmer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/sanitizers.h"

namespace muster::launcherd::heap_trimmer_test {
namespace {

TEST(HeapTrimmer, TrimsOnceAfterMuchWasFreed) {
  if (base::kIsSanitized) GTEST_SKIP() << "a sanitizer has a heap of its own";
  HeapTrimmer trimmer;
  trimmer.trim_if_due();  // whatever earlier tests have freed
  EXPECT_FALSE(trimmer.trim_if_due());
  std::vector<std::string> kept;
  {
    std::vector<std::string> freed;
    for (int i = 0; i < 4096; ++i) {
      freed.emplace_back(16'384, 'x');
      kept.emplace_back(100, 'x');
    }
    EXPECT_FALSE(trimmer.trim_if_due());
  }
  EXPECT_TRUE(trimmer.trim_if_due());
  EXPECT_FALSE(trimmer.trim_if_due());
}

}  // namespace
}  // namespace muster::launcherd::heap_trimmer_test
