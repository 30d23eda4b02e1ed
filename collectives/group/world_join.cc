// How a process finds its job from its environment (CONTRACT.md §1).
#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/env.h"
#include "base/net.h"
#include "collectives/group/world.h"
#include "collectives/join/agent_socket.h"
#include "collectives/join/alone.h"
#include "collectives/join/meeting.h"

namespace muster::collectives::inline group {
namespace {

base::Result<int> number_of(const base::Environment& environment, const char* name) {
  const auto text = environment.get(name);
  if (!text) {
    return base::invalid_argument("MUSTER_SESSION_DIR is set but {} is not: start this program with hvdrun", name);
  }
  int number = -1;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (problem != std::errc() || end != text->data() + text->size() || number < 0) {
    return base::invalid_argument("{}={} is not a number of ranks", name, *text);
  }
  return number;
}

// Returns the address at which ranks of other hosts reach this one. It is that of the route to rank 0's host, or else
// that of the interface that the launcher names for Gloo.
base::Result<std::string> own_address(const base::Environment& environment) {
  if (const auto hosts = environment.get("MUSTER_NNODES"); hosts && *hosts == "1") return std::string("127.0.0.1");
  // MASTER_ADDR is this host's own address if the host's agent forwards torch's store.
  auto master = environment.get("MUSTER_MASTER_ADDR");
  if (!master) master = environment.get("MASTER_ADDR");
  if (master) {
    const auto address = base::IpAddress::parse(*master);
    const auto source = address.ok() ? base::route_source(*address) : base::Result<base::IpAddress>(address.status());
    if (source.ok() && !source->is_loopback()) return source->str();
  }
  if (const auto interface = environment.get("GLOO_SOCKET_IFNAME")) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<base::InterfaceAddress> all, base::interface_addresses());
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.interface == *interface; });
    if (found != all.end()) return found->address.str();
  }
  return base::failed_precondition(
      "no address is known at which other hosts reach this rank: neither MASTER_ADDR nor "
      "GLOO_SOCKET_IFNAME, which hvdrun sets, names one");
}

base::Result<WorldSetup> setup_of_agent(const base::Environment& environment, std::string_view directory) {
  WorldSetup setup;
  MUSTER_ASSIGN_OR_RETURN(setup.rank, number_of(environment, "MUSTER_RANK"));
  MUSTER_ASSIGN_OR_RETURN(setup.size, number_of(environment, "MUSTER_SIZE"));
  if (setup.rank >= setup.size) {
    return base::invalid_argument("MUSTER_RANK={} is not below MUSTER_SIZE={}", setup.rank, setup.size);
  }
  MUSTER_ASSIGN_OR_RETURN(setup.address, own_address(environment));
  MUSTER_ASSIGN_OR_RETURN(setup.session, connect_to_agent(std::string(directory)));
  return setup;
}

// Returns the address of the interface that the launcher names for this host. Empty if it names none, or not one of
// this host's.
std::string named_address(const base::Environment& environment) {
  std::string_view names = environment.get("HOROVOD_GLOO_IFACE").value_or("");
  if (names.empty()) names = environment.get("GLOO_SOCKET_IFNAME").value_or("");
  const std::string_view name = names.substr(0, names.find(','));
  const auto all = base::interface_addresses();
  if (name.empty() || !all.ok()) return "";
  const auto found = std::find_if(all->begin(), all->end(), [&](const auto& one) { return one.interface == name; });
  return found == all->end() ? "" : found->address.str();
}

// Makes rank 0 of a world without an agent the host of its session.
void host_meeting(AloneHost host, WorldSetup& setup) {
  setup.address = host.place.addresses.front().str();
  setup.listener = std::move(host.listening);
  setup.host = std::make_unique<SessionHost>(setup.size);
  setup.secret = std::move(host.place.secret);
}

// Makes another rank of such a world a guest of rank 0.
base::Status be_guest(const AloneSettings& settings, AloneGuest guest, WorldSetup& setup) {
  setup.session = std::move(guest.session);
  setup.secret = std::move(guest.place.secret);
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress own, address_for_others(settings, setup.session.get()));
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress rank_0, base::peer_address(setup.session.get()));
  setup.address = own.str();
  setup.address_of_rank_0 = rank_0.str();
  // A rank on rank 0's host cannot know which of its addresses other hosts reach. Other hosts use the address at which
  // they reached rank 0.
  if (!base::IpAddress::parse(settings.host).ok()) {
    MUSTER_ASSIGN_OR_RETURN(setup.listener, base::listen_any(0, kPeerBacklog));
  }
  return base::ok_status();
}

base::Result<bool> encrypts(const base::Environment& environment) {
  const std::string_view text = environment.get("MUSTER_ENCRYPT").value_or("");
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  return base::invalid_argument("MUSTER_ENCRYPT={}: use 0 or 1", text);
}

}  // namespace

base::Result<std::shared_ptr<World>> World::join(const WorldOptions& options, const Meeting& meeting, Failure* why) {
  WorldSetup setup;
  setup.rank = meeting.rank;
  setup.size = meeting.size;
  setup.check = meeting.check;
  setup.watches_processes = true;
  const base::Environment environment = base::Environment::current();
  MUSTER_ASSIGN_OR_RETURN(setup.encrypts, encrypts(environment));
  if (meeting.size > 1 && meeting.rank == 0) {
    MUSTER_ASSIGN_OR_RETURN(AloneHost host, open_meeting(meeting, named_address(environment)));
    host_meeting(std::move(host), setup);
  } else if (meeting.size > 1) {
    MUSTER_ASSIGN_OR_RETURN(AloneGuest guest,
                            join_meeting(meeting, reach_session_host(meeting.rank), options.join_deadline));
    MUSTER_RETURN_IF_ERROR(be_guest(AloneSettings{}, std::move(guest), setup));
  }
  return join(options, std::move(setup), why);
}

base::Result<std::shared_ptr<World>> World::join(const WorldOptions& options, Failure* why) {
  const base::Environment environment = base::Environment::current();
  MUSTER_ASSIGN_OR_RETURN(const std::optional<AloneSettings> alone, read_alone_settings(environment));
  WorldSetup setup;
  Published published;  // withdrawn when all ranks have joined
  if (alone) {
    setup.rank = alone->rank;
    setup.size = alone->size;
    if (setup.rank == 0 && setup.size > 1) {
      MUSTER_ASSIGN_OR_RETURN(AloneHost host, open_alone(*alone));
      published = std::move(host.published);
      host_meeting(std::move(host), setup);
    } else if (setup.size > 1) {
      MUSTER_ASSIGN_OR_RETURN(AloneGuest guest,
                              join_alone(*alone, reach_session_host(setup.rank), options.join_deadline));
      MUSTER_RETURN_IF_ERROR(be_guest(*alone, std::move(guest), setup));
    }
  } else if (const auto directory = environment.get("MUSTER_SESSION_DIR"); directory && !directory->empty()) {
    MUSTER_ASSIGN_OR_RETURN(setup, setup_of_agent(environment, *directory));
  }
  MUSTER_ASSIGN_OR_RETURN(setup.encrypts, encrypts(environment));
  return join(options, std::move(setup), why);
}

}  // namespace muster::collectives::group
