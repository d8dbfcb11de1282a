// Package gannet is the client library of Gannet, an in-memory store.
//
//	client, err := gannet.NewClient(ctx, gannet.NoToken("127.0.0.1:7000"), gannet.Laptop(), time.Hour)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	found, err := client.Get(ctx, "default", "greeting")
//	if err != nil {
//		return err // a *gannet.Error, whose message names the remedy
//	}
//	switch found := found.(type) {
//	case *gannet.GetHit:
//		fmt.Println(found.ValueString())
//	case *gannet.GetMiss:
//		fmt.Println("not there")
//	}
//
// A client bounds its requests in flight, because their number decides the p999 of all of them. Further requests wait
// in the client, in order of their arrival, until their deadline. The presets Laptop, InRegionDefault,
// InRegionLowLatency and Lambda have the same values in all client libraries.
//
// Subscribe receives the messages of a topic and continues after a broken connection, GetOrCompute lets one of many
// clients compute a value, RecordPut and the calls beside it store typed bins, Graph has the calls on nodes and edges,
// and Configuration.WithNearCache keeps copies of values that the server's reports of changes invalidate.
package gannet
