using System;
using Gannet.Client.Protocol;
using Gannet.V1;
using Gannet.V1.Replies;

namespace Gannet.Client.Engine
{
    // Leases. A repeated LeaseGet waits for the lease that the first one has won, and a repeated LeaseSet finds none.
    internal static partial class Calls
    {
        public static readonly Call<LeaseResult> LeaseGet = One(
            Methods.LeasesLeaseGet, LeaseGetReply.Read, LeaseOf, error => new LeaseResult.Error(error), false);

        public static readonly Call<ConditionalSetResult> LeaseSet = One(
            Methods.LeasesLeaseSet,
            LeaseSetReply.Read,
            reply => reply.Stored
                ? ConditionalSetResult.Stored.Instance
                : (ConditionalSetResult)ConditionalSetResult.NotStored.Instance,
            error => new ConditionalSetResult.Error(error),
            false);

        public static readonly Call<FoundResult> LeaseStale = One(
            Methods.LeasesLeaseStale,
            LeaseStaleReply.Read,
            reply => reply.Found ? FoundResult.Success.Instance : (FoundResult)FoundResult.Miss.Instance,
            error => new FoundResult.Error(error),
            true);

        private static LeaseResult LeaseOf(LeaseGetReply reply) => reply.State switch
        {
            LeaseState.LeaseHit when reply.Value != null => new LeaseResult.Hit(reply.Value.Value),
            LeaseState.LeaseWon => new LeaseResult.Won(reply.Token, reply.Value),
            LeaseState.LeaseWait => (LeaseResult)new LeaseResult.Wait(reply.Value),
            _ => throw new BadReplyException($"the state of LeaseGet is {reply.State}"),
        };
    }
}
