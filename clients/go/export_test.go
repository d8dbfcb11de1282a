package gannet

import "time"

// SetSilence changes the time without a message after which streams are given up.
func SetSilence(c *Client, silence time.Duration) { c.engine.silence = silence }
