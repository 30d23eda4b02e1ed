#include "launcherd/run/host_roster.h"

#include <vector>

#include <gtest/gtest.h>

namespace muster::launcherd::host_roster_test {
namespace {

class HostRosterTest : public ::testing::Test {
 protected:
  HostRosterTest() {
    for (const char* const name : {"n1", "n2", "n3"}) hosts_.add(name, false);
  }
  void all(HostEvent event) {
    for (JobHost& host : hosts_) host.phase.apply(event);
  }

  HostRoster hosts_;
};

TEST_F(HostRosterTest, NumbersHostsInTheOrderOfAdding) {
  EXPECT_EQ(hosts_.size(), 3u);
  EXPECT_EQ(hosts_.at(2).name, "n3");
  EXPECT_EQ(hosts_.at(2).agent, 2);
  EXPECT_EQ(hosts_.at(2).placed, 2);
  EXPECT_EQ(hosts_.facts().size(), 3u);
}

TEST_F(HostRosterTest, StepsAreTakenWhenTheLastHostTakesThem) {
  EXPECT_TRUE(hosts_.is_any_waiting());
  hosts_.at(1).phase.apply(HostEvent::kAgentUp);
  EXPECT_FALSE(hosts_.are_up());
  all(HostEvent::kAgentUp);
  EXPECT_TRUE(hosts_.are_up());
  EXPECT_FALSE(hosts_.is_any_waiting());
  hosts_.at(2).phase.apply(HostEvent::kNotNeeded);  // it need not take the next steps
  EXPECT_TRUE(hosts_.are_up());
  EXPECT_FALSE(hosts_.are_prepared());
  all(HostEvent::kPrepared);
  EXPECT_TRUE(hosts_.are_prepared());
  all(HostEvent::kLaunch);
  EXPECT_TRUE(hosts_.is_any_in(HostPhase::kLaunched));
  EXPECT_FALSE(hosts_.are_without_processes());
  all(HostEvent::kRanksGone);
  EXPECT_TRUE(hosts_.are_without_processes());
}

TEST_F(HostRosterTest, AreUpSeesHostsThatFailLater) {
  hosts_.at(0).phase.apply(HostEvent::kAgentUp);
  EXPECT_FALSE(hosts_.are_up());
  hosts_.at(0).phase.apply(HostEvent::kStartFailed);
  for (const int agent : {1, 2}) hosts_.at(agent).phase.apply(HostEvent::kAgentUp);
  EXPECT_FALSE(hosts_.are_up());
}

TEST_F(HostRosterTest, AHostThatIsAddedLaterMustTakeTheSteps) {
  for (const HostEvent event : {HostEvent::kAgentUp, HostEvent::kPrepared, HostEvent::kLaunch, HostEvent::kRanksGone}) {
    all(event);
  }
  EXPECT_TRUE(hosts_.are_without_processes());
  JobHost& first = hosts_.at(0);
  JobHost& added = hosts_.add("n4", false);
  EXPECT_EQ(added.agent, 3);
  EXPECT_EQ(&first, &hosts_.at(0)) << "the others stay where they are";
  EXPECT_FALSE(hosts_.are_without_processes());
  added.phase.apply(HostEvent::kStartFailed);
  EXPECT_TRUE(hosts_.are_without_processes());
}

TEST_F(HostRosterTest, NoteTriedReportsTheLastAgentOnce) {
  EXPECT_FALSE(hosts_.note_tried(hosts_.at(2)));
  EXPECT_FALSE(hosts_.note_tried(hosts_.at(0)));
  EXPECT_TRUE(hosts_.note_tried(hosts_.at(1)));
  EXPECT_FALSE(hosts_.note_tried(hosts_.at(1)));
}

TEST_F(HostRosterTest, FindsHostsByPlaceAndByTheFirstEntryOfTheSameHost) {
  EXPECT_FALSE(hosts_.has_first_of());
  hosts_.set_first_of({0, 0, 2});
  EXPECT_TRUE(hosts_.is_first(hosts_.at(2)));
  EXPECT_FALSE(hosts_.is_first(hosts_.at(1)));
  EXPECT_EQ(hosts_.first_of(hosts_.at(1)).name, "n1");
  hosts_.at(1).placed = -1;
  hosts_.at(2).placed = 1;
  EXPECT_EQ(hosts_.by_placed(3), (std::vector<JobHost*>{&hosts_.at(0), &hosts_.at(2), nullptr}));
}

TEST_F(HostRosterTest, OwnersOfAnAddressAreHostsThatAnswer) {
  for (JobHost& host : hosts_) host.facts.hello.add_interfaces()->set_address("192.0.2.1");
  EXPECT_TRUE(hosts_.owners_of("192.0.2.1").empty());
  all(HostEvent::kAgentUp);
  all(HostEvent::kPrepared);
  EXPECT_EQ(hosts_.owners_of("192.0.2.1"), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(hosts_.owners_of("192.0.2.2").empty());
  all(HostEvent::kRanksGone);
  hosts_.at(1).has_stream = true;
  EXPECT_EQ(hosts_.owners_of("192.0.2.1"), std::vector<int>{1});
}

TEST_F(HostRosterTest, LaunchedBeforeMeansByAnEarlierLauncher) {
  EXPECT_FALSE(hosts_.is_any_launched_before());
  hosts_.at(1).has_launched = true;
  EXPECT_TRUE(hosts_.is_any_launched_before());
}

}  // namespace
}  // namespace muster::launcherd::host_roster_test
