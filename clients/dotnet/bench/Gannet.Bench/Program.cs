namespace Gannet.Bench
{
    internal static class Program
    {
        private static void Main()
        {
        }
    }
}
