#include "model/hang_doing.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/unit/model/hang_evidence.h"

namespace muster::model::hang_doing_test {
namespace {

RankDoing doing(const Track& track) {
  std::vector<const RankEvidence*> looks;
  for (std::size_t i = 0; i < kRounds; ++i) looks.push_back(&track[i % track.size()].evidence);
  return doing_of(looks);
}

TEST(HangDoing, EachPlaceHasItsMeaning) {
  EXPECT_EQ(doing({is_stopped()}), RankDoing::kStopped);
  EXPECT_EQ(doing({on_disk()}), RankDoing::kDisk);
  EXPECT_EQ(doing({in_allreduce(3)}), RankDoing::kCollective);
  EXPECT_EQ(doing({in_key()}), RankDoing::kKey);
  EXPECT_EQ(doing({in_gloo()}), RankDoing::kPeers);
  EXPECT_EQ(doing({in_mpi()}), RankDoing::kPeers);
  EXPECT_EQ(doing({Rank().native("_ZN4gloo7barrierE").state("R").uses(1000)}), RankDoing::kPeers);
  EXPECT_EQ(doing(loops()), RankDoing::kLoops);
  EXPECT_EQ(doing({in_call()}), RankDoing::kComputes);
  EXPECT_EQ(doing({in_recv()}), RankDoing::kSocket);
  EXPECT_EQ(doing({in_accept()}), RankDoing::kServes);
  EXPECT_EQ(doing({in_epoll()}), RankDoing::kServes);
  EXPECT_EQ(doing({in_lock()}), RankDoing::kBlocked);
  EXPECT_EQ(doing(evaluates()), RankDoing::kWorks);
  EXPECT_EQ(doing_of({}), RankDoing::kUnknown);
}

TEST(HangDoing, AnOpenOperationInTorchsFlightRecorderIsAWaitForRanks) {
  EXPECT_EQ(doing({in_call().torch(17, "started")}), RankDoing::kPeers);
  EXPECT_EQ(doing({in_lock().torch(17, "scheduled")}), RankDoing::kPeers);
  EXPECT_EQ(doing({in_call().torch(17, "completed")}), RankDoing::kComputes);
  EXPECT_EQ(doing({in_lock().torch(17, "completed")}), RankDoing::kBlocked);
  EXPECT_EQ(doing(changes(in_call().torch(17, "started"), in_call().torch(18, "started"))), RankDoing::kWorks);
  EXPECT_EQ(doing(changes(in_lock().torch(17, "started"), in_lock())), RankDoing::kBlocked) << "it answered once";
}

TEST(HangDoing, AReadWithATimeoutPollsInThePythonLibrary) {
  EXPECT_EQ(doing({in_script(3).in("readinto", "/usr/lib/python3.11/socket.py", 706).waits_in("do_poll.constprop.0")}),
            RankDoing::kSocket);
  EXPECT_EQ(doing({in_script(3).in("accept", "/usr/lib/python3.11/socket.py", 300).waits_in("do_poll.constprop.0")}),
            RankDoing::kServes);
}

TEST(HangDoing, ALibraryCountsOnlyIfItIsTheInnermost) {
  // torch.distributed.run calls the whole program.
  Rank inside = Rank()
                    .in("main", "/x/dist-packages/torch/distributed/run.py", 3)
                    .in("main", "/home/alice/train.py", 5)
                    .waits_in("futex_wait_queue");
  EXPECT_EQ(doing({inside}), RankDoing::kBlocked);
}

TEST(HangDoing, OurOwnLibraryMayLieInAnyFolder) {
  const Rank waits = in_script(10)
                         .in("allreduce", "/work/python/muster/numpy.py", 127)
                         .in("Ticket._wait", "/work/python/muster/engine.py", 135)
                         .waits_in("futex_wait_queue");
  EXPECT_EQ(doing({waits}), RankDoing::kPeers);
  EXPECT_EQ(place_of(waits.evidence), "main (train.py:10)");
}

TEST(HangDoing, SomeCpuTimeMeansThatItWorks) {
  EXPECT_EQ(doing({in_lock().uses(19)}), RankDoing::kBlocked);
  EXPECT_EQ(doing({in_lock().uses(21)}), RankDoing::kWorks);
  EXPECT_EQ(doing({in_recv().uses(11)}), RankDoing::kWorks);
  EXPECT_EQ(doing({in_call().uses(90)}), RankDoing::kWorks);
  EXPECT_EQ(doing({in_call().uses(250)}), RankDoing::kComputes) << "it shares its core";
  EXPECT_EQ(cpu_share(RankEvidence()), 0);
}

TEST(HangDoing, ARankThatWantsACoreOrADiskAndGetsNoneDoesNotHang) {
  EXPECT_EQ(doing({in_lock().state("R")}), RankDoing::kWorks);
  EXPECT_EQ(doing(changes(in_lock(), in_lock().state("R"))), RankDoing::kWorks);
  EXPECT_EQ(doing(changes(in_lock().state("D"), in_lock())), RankDoing::kWorks);
  EXPECT_EQ(doing({in_epoll().state("R")}), RankDoing::kWorks);
}

TEST(HangDoing, AThreadThatWaitsForWorkersComputesNothing) {
  const Rank pool = in_script(9).in("wait", "/usr/lib/python3.11/threading.py", 320).state("R").uses(1500);
  EXPECT_EQ(doing({pool}), RankDoing::kWorks);
}

TEST(HangDoing, OneUnitOfCpuTimeIsNoiseInAShortLook) {
  const auto in_short_looks = [](Rank rank) {
    rank.evidence.looked_ms = 300;
    return rank;
  };
  EXPECT_EQ(doing({in_short_looks(in_lock().uses(10))}), RankDoing::kBlocked);
  EXPECT_EQ(doing({in_short_looks(in_lock().uses(20))}), RankDoing::kWorks);
  EXPECT_EQ(doing({in_short_looks(in_recv().uses(10))}), RankDoing::kSocket);
  EXPECT_EQ(doing({in_short_looks(in_recv().uses(20))}), RankDoing::kWorks);
  EXPECT_EQ(doing({in_short_looks(on_disk().uses(10))}), RankDoing::kDisk);
  EXPECT_TRUE(is_idle(in_short_looks(in_gloo().uses(10)).evidence));
  EXPECT_FALSE(is_idle(in_short_looks(in_gloo().uses(20)).evidence));
}

TEST(HangDoing, NamesTheInnermostCallOfTheUser) {
  EXPECT_EQ(place_of(in_gloo().evidence), "main (train.py:41)");
  EXPECT_EQ(place_of(Rank().native("spin").evidence), "spin ()");
  EXPECT_EQ(place_of(Rank().in("f", "/usr/lib/python3.11/a.py", 0).evidence), "f (a.py)");
  EXPECT_EQ(place_of(RankEvidence()), "");
}

TEST(HangDoing, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(RankDoing::kBlocked); ++i) names.insert(name_of(static_cast<RankDoing>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(RankDoing::kBlocked) + 1);
}

}  // namespace
}  // namespace muster::model::hang_doing_test
