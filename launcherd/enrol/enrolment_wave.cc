// EnrolmentWave: match_host finds the seat for an agent's names; the class keeps the seats.
// Read match_host first, then assign_seat and give_up.
#include "launcherd/enrol/enrolment_wave.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/strings.h"

namespace muster::launcherd::inline enrol {
namespace {

// Returns the part before the first dot. Returns an address unchanged, because its first part is not a name.
std::string short_name(std::string_view name) {
  if (base::IpAddress::parse(name).ok()) return std::string(name);
  return base::lower(name.substr(0, name.find('.')));
}

// Returns the only entry of `expected` that fits. nullopt if no entry or several entries fit.
template <typename Fits>
std::optional<std::size_t> only_one(const std::vector<std::string>& expected, Fits fits) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!fits(expected[i])) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost)));
  return base::join(first, ", ") + (names.size() > kMost ? ", …" : "");
}

}  // namespace

std::optional<std::size_t> match_host(const std::vector<std::string>& expected,
                                      const std::vector<std::string>& agent_names,
                                      const std::optional<base::IpAddress>& peer) {
  for (const std::string& name : agent_names) {
    if (const auto host = only_one(expected, [&](const auto& each) { return base::lower(each) == base::lower(name); }))
      return host;
  }
  for (const std::string& name : agent_names) {
    if (const auto host = only_one(expected, [&](const auto& each) { return short_name(each) == short_name(name); })) {
      return host;
    }
  }
  if (!peer) return std::nullopt;
  return only_one(expected, [&](const auto& each) {
    const auto address = base::IpAddress::parse(each);
    return address.ok() && *address == *peer;
  });
}

base::Result<std::shared_ptr<EnrolmentWave>> EnrolmentWave::make(std::vector<std::string> names) {
  std::shared_ptr<EnrolmentWave> wave(new EnrolmentWave(std::move(names)));
  for (Seat& seat : wave->seats_) {
    MUSTER_ASSIGN_OR_RETURN(base::FdPair ends, base::make_socketpair(SOCK_STREAM));
    seat.ours = std::move(ends.first);
    seat.agents = std::move(ends.second);
  }
  return wave;
}

base::UniqueFd EnrolmentWave::take_stream(std::size_t seat) {
  const std::lock_guard lock(mutex_);
  return std::move(seats_[seat].ours);
}

std::string EnrolmentWave::reason(std::size_t seat) const {
  const std::lock_guard lock(mutex_);
  return seats_[seat].reason;
}

EnrolmentWave::Ends EnrolmentWave::ends(std::size_t seat) const {
  const std::lock_guard lock(mutex_);
  return seats_[seat].ends;
}

base::Result<EnrolmentWave::AssignedSeat> EnrolmentWave::assign_seat(const std::vector<std::string>& agent_names,
                                                                     const Ends& ends) {
  const auto host = match_host(names_, agent_names, ends.host);
  const std::string from = ends.host ? " from " + ends.host->str() : "";
  const std::lock_guard lock(mutex_);
  if (!host) {
    return base::not_found(
        "an agent{} names its host {}, but the launcher waits for other hosts ({}): name the hosts as "
        "they call themselves, or give the agent --host NAME",
        from, listed(agent_names), listed(missing()));
  }
  Seat& seat = seats_[*host];
  if (seat.is_occupied) {
    return base::already_exists("refused a second agent of host {}{}: one has enrolled already", names_[*host], from);
  }
  if (!seat.reason.empty()) {
    return base::failed_precondition("the agent of host {} connected too late", names_[*host]);
  }
  seat.is_occupied = true;
  seat.ends = ends;
  return AssignedSeat{*host, names_[*host], std::move(seat.agents)};
}

void EnrolmentWave::release(AssignedSeat assigned) {
  const std::lock_guard lock(mutex_);
  Seat& seat = seats_[assigned.seat];
  seat.is_occupied = false;
  seat.ends = {};
  seat.agents = std::move(assigned.stream);
}

void EnrolmentWave::give_up(const std::vector<std::size_t>& seats, const std::string& why) {
  const std::lock_guard lock(mutex_);
  for (const std::size_t index : seats) {
    Seat& seat = seats_[index];
    if (seat.is_occupied || !seat.reason.empty()) continue;
    seat.reason = why;
    seat.agents.reset();
  }
}

void EnrolmentWave::give_up_all(const std::string& why) {
  std::vector<std::size_t> all(seats_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  give_up(all, why);
}

bool EnrolmentWave::is_complete() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(seats_, [](const Seat& seat) { return seat.is_occupied || !seat.reason.empty(); });
}

bool EnrolmentWave::is_any_occupied(const std::vector<std::size_t>& seats) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(seats, [this](std::size_t seat) { return seats_[seat].is_occupied; });
}

bool EnrolmentWave::are_given_up(const std::vector<std::size_t>& seats) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(seats, [this](std::size_t seat) { return !seats_[seat].reason.empty(); });
}

std::vector<std::string> EnrolmentWave::missing() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    if (!seats_[i].is_occupied) names.push_back(names_[i]);
  }
  return names;
}

}  // namespace muster::launcherd::enrol
